//! Slots: requests that carry a number of holders at once.

use std::time::Duration;

use tenure::{Lease, Mode, Token};

use super::case::{Case, case};
use crate::agent::words::{Answer, Command, Kind, Notes};
use crate::agent::{Agent, LONG_WAIT, Pending, resource};
use crate::stage::{Stage, until};

pub(super) const CASES: &[Case] = &[
    case!(so_many_at_once_and_the_next_waits, Slots),
    case!(every_asker_has_a_capacity_of_its_own, Slots),
    case!(slots_are_given_in_the_order_they_were_asked_for, Slots),
    case!(
        who_asks_for_few_is_not_overtaken_by_who_asks_for_many,
        Slots
    ),
    case!(who_gives_up_a_slot_lets_those_behind_move_up, Slots),
    case!(a_killed_holder_frees_its_slot, Slots),
    case!(a_stopped_holder_keeps_its_slot, Slots),
    case!(every_slot_has_a_token_of_its_own, Slots),
    case!(slots_of_different_names_are_counted_apart, Slots),
    case!(a_session_has_a_slot_once, Slots),
    case!(who_waits_for_a_slot_is_listed_with_all_who_have_one, Slots),
];

const BUILD: &str = "slot:build";

fn want(agent: &mut Agent, name: &str, capacity: u32) -> Pending {
    want_for(agent, name, capacity, LONG_WAIT)
}

fn want_for(agent: &mut Agent, name: &str, capacity: u32, wait: Duration) -> Pending {
    agent.send(Command::Acquire {
        resource: resource(name),
        mode: Mode::Write,
        wait,
        notes: Notes {
            capacity: Some(capacity),
            ..Notes::default()
        },
    })
}

fn try_slot(agent: &mut Agent, name: &str, capacity: u32) -> Option<Lease> {
    let asked = want_for(agent, name, capacity, Duration::ZERO);
    match agent.answer(asked) {
        Answer::Granted { mut leases } => leases.pop(),
        Answer::Failed(failure) if failure.kind == Kind::Busy => None,
        other => panic!("{} asked for {name}: {other:?}", agent.owner()),
    }
}

fn take(agent: &mut Agent, name: &str, capacity: u32) -> Lease {
    let taken = try_slot(agent, name, capacity);
    taken.unwrap_or_else(|| panic!("no slot of {name} is free for {}", agent.owner()))
}

fn so_many_at_once_and_the_next_waits(stage: &Stage<'_>) {
    for placement in stage.placements() {
        for capacity in 1..=3 {
            let mut agents = stage.agents(*placement, ["ana", "bo", "cy", "di"]);
            let (within, beyond) = agents.split_at_mut(capacity as usize);
            for agent in &mut *within {
                take(agent, BUILD, capacity);
            }
            let next = &mut beyond[0];
            assert!(try_slot(next, BUILD, capacity).is_none(), "{placement:?}");
            let wanted = want(next, BUILD, capacity);
            stage.until_waiting(BUILD, 1);
            assert!(next.answered(wanted).is_none());
            assert_eq!(stage.held().len(), capacity as usize);
            within.last_mut().unwrap().release(BUILD);
            next.granted(wanted);
            assert_eq!(stage.held().len(), capacity as usize);
        }
    }
}

fn every_asker_has_a_capacity_of_its_own(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy, mut di] = stage.agents(stage.apart(), ["ana", "bo", "cy", "di"]);
    take(&mut ana, BUILD, 2);
    take(&mut bo, BUILD, 2);
    for full in 1..=2 {
        assert!(try_slot(&mut cy, BUILD, full).is_none(), "{full}");
    }
    take(&mut cy, BUILD, 3);
    assert!(try_slot(&mut di, BUILD, 3).is_none());
    take(&mut di, BUILD, 100);
    // Every holder counts for every asker, whatever capacity it asked for.
    ana.release(BUILD);
    bo.release(BUILD);
    assert!(try_slot(&mut ana, BUILD, 2).is_none());
    cy.release(BUILD);
    take(&mut ana, BUILD, 2);
}

fn slots_are_given_in_the_order_they_were_asked_for(stage: &Stage<'_>) {
    let [mut h1, mut h2] = stage.agents(stage.seen_waiting(), ["h1", "h2"]);
    let mut agents = stage.agents(stage.seen_waiting(), ["w1", "w2", "w3", "w4"]);
    take(&mut h1, BUILD, 2);
    take(&mut h2, BUILD, 2);
    let mut line = Vec::new();
    for (index, agent) in agents.iter_mut().enumerate() {
        line.push(want(agent, BUILD, 2));
        stage.until_waiting(BUILD, index + 1);
    }
    let mut holders = vec![h1, h2];
    for (served, (mut agent, wanted)) in agents.into_iter().zip(line).enumerate() {
        holders.remove(0).release(BUILD);
        agent.granted(wanted);
        stage.until_waiting(BUILD, 3 - served);
        assert_eq!(stage.held().len(), 2);
        holders.push(agent);
    }
}

fn who_asks_for_few_is_not_overtaken_by_who_asks_for_many(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut few, mut many] =
        stage.agents(stage.seen_waiting(), ["ana", "bo", "few", "many"]);
    take(&mut ana, BUILD, 2);
    take(&mut bo, BUILD, 2);
    let alone = want(&mut few, BUILD, 1);
    stage.until_waiting(BUILD, 1);
    assert!(try_slot(&mut many, BUILD, 9).is_none());
    let behind = want(&mut many, BUILD, 9);
    stage.until_waiting(BUILD, 2);
    ana.release(BUILD);
    stage.until_waiting(BUILD, 2);
    assert!(few.answered(alone).is_none() && many.answered(behind).is_none());
    bo.release(BUILD);
    few.granted(alone);
    // It is the first in line now, so its own capacity counts.
    many.granted(behind);
    assert_eq!(stage.held().len(), 2);
}

fn who_gives_up_a_slot_lets_those_behind_move_up(stage: &Stage<'_>) {
    let [mut ana, mut few, mut many] = stage.agents(stage.seen_waiting(), ["ana", "few", "many"]);
    take(&mut ana, BUILD, 1);
    let alone = want(&mut few, BUILD, 1);
    stage.until_waiting(BUILD, 1);
    let behind = want(&mut many, BUILD, 2);
    stage.until_waiting(BUILD, 2);
    assert!(few.cancel(alone));
    many.granted(behind);
    assert_eq!(stage.held().len(), 2);
}

fn a_killed_holder_frees_its_slot(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy, mut di] = stage.agents(stage.apart(), ["ana", "bo", "cy", "di"]);
    take(&mut ana, BUILD, 2);
    take(&mut bo, BUILD, 2);
    let wanted = want(&mut cy, BUILD, 2);
    stage.until_waiting(BUILD, 1);
    ana.crash();
    cy.granted(wanted);
    bo.crash();
    until("the other slot is free", || {
        try_slot(&mut di, BUILD, 2).is_some()
    });
    assert_eq!(
        stage.shown(),
        ["cy slot:build write", "di slot:build write"]
    );
}

fn a_stopped_holder_keeps_its_slot(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    take(&mut ana, BUILD, 2);
    take(&mut bo, BUILD, 2);
    stage.stop(&mut ana);
    let wanted = want(&mut cy, BUILD, 2);
    stage.until_waiting(BUILD, 1);
    assert!(cy.answered(wanted).is_none());
    bo.release(BUILD);
    cy.granted(wanted);
    assert!(try_slot(&mut bo, BUILD, 2).is_none());
    ana.resume();
    ana.release(BUILD);
    take(&mut bo, BUILD, 2);
}

fn every_slot_has_a_token_of_its_own(stage: &Stage<'_>) {
    let mut agents = stage.agents(stage.apart(), ["ana", "bo", "cy"]);
    let mut last = Token::NONE;
    for _ in 0..3 {
        for agent in &mut agents {
            let token = take(agent, BUILD, 3).token;
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        for agent in &mut agents {
            agent.release(BUILD);
        }
    }
}

fn slots_of_different_names_are_counted_apart(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    take(&mut ana, BUILD, 1);
    take(&mut bo, "slot:building", 1);
    take(&mut bo, "slot:test", 1);
}

fn a_session_has_a_slot_once(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    take(&mut ana, BUILD, 3);
    let again = want(&mut ana, BUILD, 3);
    assert_eq!(ana.failed(again).kind, Kind::Reentry);
    assert_eq!(stage.held().len(), 1);
    take(&mut bo, BUILD, 2);
}

fn who_waits_for_a_slot_is_listed_with_all_who_have_one(stage: &Stage<'_>) {
    let [mut ana, mut bo, mut cy] = stage.agents(stage.seen_waiting(), ["ana", "bo", "cy"]);
    let mut held = vec![
        take(&mut ana, BUILD, 2).lease,
        take(&mut bo, BUILD, 2).lease,
    ];
    let wanted = want(&mut cy, BUILD, 2);
    stage.until_waiting(BUILD, 1);
    if stage.capabilities().lists_waiters {
        let query = tenure::Query::default();
        let listing = stage.block_on(stage.keeper().list(&query)).unwrap();
        let mut waiting = listing.waiting.unwrap();
        let waiter = waiting.pop().unwrap();
        assert_eq!((waiter.owner.as_str(), waiter.position), ("cy", 1));
        assert!(!waiter.reason.is_empty());
        let mut blocked_by = waiter.blocked_by;
        blocked_by.sort();
        held.sort();
        assert_eq!(blocked_by, held);
    }
    ana.release(BUILD);
    cy.granted(wanted);
}
