//! Fencing numbers.

use tenure::{Keeper, Mode, Options, Owner, SessionOptions, Token};

use super::case::{Case, case};
use crate::agent::resource;
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case!(every_write_draws_a_higher_token),
    case!(readers_and_upgradeable_holders_carry_the_current_token),
    case!(an_upgrade_draws_a_higher_token_and_a_downgrade_keeps_it),
    case!(what_was_not_granted_draws_nothing_that_others_see),
    case!(tokens_go_on_after_a_crash),
    case!(tokens_go_on_when_the_store_is_opened_again, CrossProcess),
    case!(the_list_shows_the_token_of_the_guard),
];

fn every_write_draws_a_higher_token(stage: &Stage<'_>) {
    let mut last = Token::NONE;
    for seating in stage.seatings() {
        let mut agents = stage.cast(*seating, ["ana", "bo", "cy"]);
        for _ in 0..5 {
            for agent in &mut agents {
                let token = agent.take("a", Mode::Write).token;
                assert!(token > last && token <= Token::MAX, "{token} after {last}");
                last = token;
                agent.release("a");
            }
        }
    }
}

fn readers_and_upgradeable_holders_carry_the_current_token(stage: &Stage<'_>) {
    for seating in stage.seatings() {
        let [mut ana, mut bo, mut cy] = stage.cast(*seating, ["ana", "bo", "cy"]);
        for _ in 0..3 {
            let current = ana.take("a", Mode::Write).token;
            ana.release("a");
            assert_eq!(bo.take("a", Mode::Read).token, current, "{seating:?}");
            assert_eq!(cy.take("a", Mode::Upgradeable).token, current);
            assert_eq!(ana.take("a", Mode::Read).token, current);
            for agent in [&mut ana, &mut bo, &mut cy] {
                agent.release("a");
            }
            assert_eq!(ana.take("a", Mode::Read).token, current);
            ana.release("a");
        }
    }
}

fn an_upgrade_draws_a_higher_token_and_a_downgrade_keeps_it(stage: &Stage<'_>) {
    for seating in stage.seatings() {
        let [mut ana, mut bo] = stage.cast(*seating, ["ana", "bo"]);
        let mut last = bo.take("a", Mode::Write).token;
        bo.release("a");
        assert_eq!(ana.take("a", Mode::Upgradeable).token, last);
        for _ in 0..3 {
            let token = ana.try_upgrade("a").unwrap();
            assert!(token > last, "{seating:?}: {token} after {last}");
            assert_eq!(ana.downgrade("a").token, token);
            assert_eq!(bo.take("a", Mode::Read).token, token);
            bo.release("a");
            last = token;
        }
        ana.release("a");
        assert!(bo.take("a", Mode::Write).token > last);
    }
}

fn what_was_not_granted_draws_nothing_that_others_see(stage: &Stage<'_>) {
    for seating in stage.seatings() {
        let [mut ana, mut bo, mut cy] = stage.cast(*seating, ["ana", "bo", "cy"]);
        let current = ana.take("a", Mode::Write).token;
        assert!(bo.try_take("a", Mode::Write).is_none());
        ana.release("a");
        ana.take("a", Mode::Upgradeable);
        assert!(bo.try_take("a", Mode::Write).is_none());
        bo.take("a", Mode::Read);
        assert!(ana.try_upgrade("a").is_none());
        assert_eq!(cy.take("a", Mode::Read).token, current, "{seating:?}");
        let tokens: Vec<_> = stage.held().iter().map(|lease| lease.token).collect();
        assert_eq!(tokens, [current; 3]);
    }
}

fn tokens_go_on_after_a_crash(stage: &Stage<'_>) {
    let mut last = Token::NONE;
    for _ in 0..3 {
        let [mut ana, mut bo] = stage.cast(stage.apart(), ["ana", "bo"]);
        let held = ana.take("a", Mode::Write).token;
        assert!(held > last);
        ana.crash();
        let after = stage.take_from_the_dead(&mut bo, "a", Mode::Read);
        assert_eq!(after.token, held);
        bo.release("a");
        bo.take("a", Mode::Upgradeable);
        last = bo.try_upgrade("a").unwrap();
        assert!(last > held);
        bo.crash();
    }
}

fn tokens_go_on_when_the_store_is_opened_again(stage: &Stage<'_>) {
    let mut last = Token::NONE;
    let a = resource("a");
    for _ in 0..3 {
        let token = stage.block_on(async {
            let keeper = Keeper::open(stage.url()).await.unwrap();
            let owner = Owner::parse("ana").unwrap();
            let session = keeper.session(SessionOptions::new(owner)).await.unwrap();
            let options = Options::default();
            session
                .acquire(&a, Mode::Write, &options)
                .await
                .unwrap()
                .token()
        });
        assert!(token > last);
        last = token;
    }
}

fn the_list_shows_the_token_of_the_guard(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.cast(stage.apart(), ["ana", "bo"]);
    let shown = |agent: &mut crate::agent::Agent| agent.list()[0].token;
    let lease = ana.take("a", Mode::Upgradeable);
    assert_eq!(shown(&mut bo), lease.token);
    let upgraded = ana.try_upgrade("a").unwrap();
    assert_eq!(shown(&mut bo), upgraded);
    ana.downgrade("a");
    assert_eq!(shown(&mut bo), upgraded);
}
