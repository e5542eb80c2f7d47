//! Fairness: the order in which waiters are served.

use tenure::Mode;

use super::case::{Case, case};
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case!(a_waiting_writer_is_not_overtaken_by_new_readers),
    case!(readers_in_line_enter_together),
    case!(who_gives_up_lets_those_behind_move_up),
    case!(everyone_in_line_is_served),
    case!(waiters_are_served_in_the_order_they_came, StrictOrder),
    case!(a_run_of_readers_enters_and_stops_at_the_writer, StrictOrder),
];

fn a_waiting_writer_is_not_overtaken_by_new_readers(stage: &Stage<'_>) {
    let [mut r1, mut writer, mut r2] = stage.agents(stage.seen_waiting(), ["r1", "w", "r2"]);
    r1.take("a", Mode::Read);
    let wanted = writer.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    assert!(r2.try_take("a", Mode::Read).is_none());
    let wanted_too = r2.want("a", Mode::Read);
    stage.until_waiting("a", 2);
    r1.release("a");
    writer.granted(wanted);
    stage.until_waiting("a", 1);
    assert!(r2.answered(wanted_too).is_none());
    writer.release("a");
    r2.granted(wanted_too);
}

fn readers_in_line_enter_together(stage: &Stage<'_>) {
    let [mut writer, mut r1, mut r2, mut r3] =
        stage.agents(stage.seen_waiting(), ["w", "r1", "r2", "r3"]);
    writer.take("a", Mode::Write);
    let mut line = Vec::new();
    for (index, reader) in [&mut r1, &mut r2, &mut r3].into_iter().enumerate() {
        line.push(reader.want("a", Mode::Read));
        stage.until_waiting("a", index + 1);
    }
    writer.release("a");
    for (reader, wanted) in [&mut r1, &mut r2, &mut r3].into_iter().zip(line) {
        reader.granted(wanted);
    }
    assert_eq!(
        stage.shown(),
        ["r1 name:a read", "r2 name:a read", "r3 name:a read"]
    );
}

fn who_gives_up_lets_those_behind_move_up(stage: &Stage<'_>) {
    let [mut r1, mut writer, mut r2] = stage.agents(stage.seen_waiting(), ["r1", "w", "r2"]);
    r1.take("a", Mode::Read);
    let wanted = writer.want("a", Mode::Write);
    stage.until_waiting("a", 1);
    let behind = r2.want("a", Mode::Read);
    stage.until_waiting("a", 2);
    assert!(writer.cancel(wanted));
    r2.granted(behind);
    assert_eq!(stage.shown(), ["r1 name:a read", "r2 name:a read"]);
}

fn everyone_in_line_is_served(stage: &Stage<'_>) {
    let owners = ["w1", "r1", "u1", "w2", "r2", "u2"];
    for placement in stage.placements() {
        let [mut holder] = stage.agents(*placement, ["holder"]);
        let mut agents = stage.agents(*placement, owners);
        holder.take("a", Mode::Write);
        let mut line: Vec<_> = agents
            .iter_mut()
            .map(|agent| {
                let mode = match agent.owner().as_bytes()[0] {
                    b'w' => Mode::Write,
                    b'r' => Mode::Read,
                    _ => Mode::Upgradeable,
                };
                let wanted = agent.want("a", mode);
                (agent, wanted)
            })
            .collect();
        holder.release("a");
        crate::stage::until("everyone was served", || {
            line.retain_mut(|(agent, wanted)| {
                let Some(answer) = agent.answered(*wanted) else {
                    return true;
                };
                use crate::agent::words::Answer;
                assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
                agent.release("a");
                false
            });
            line.is_empty()
        });
    }
}

fn waiters_are_served_in_the_order_they_came(stage: &Stage<'_>) {
    let [mut holder] = stage.agents(stage.seen_waiting(), ["holder"]);
    let mut agents = stage.agents(stage.seen_waiting(), ["w1", "u2", "w3", "r4", "w5"]);
    let modes = [
        Mode::Write,
        Mode::Upgradeable,
        Mode::Write,
        Mode::Read,
        Mode::Write,
    ];
    holder.take("a", Mode::Write);
    let mut line = Vec::new();
    for (index, agent) in agents.iter_mut().enumerate() {
        line.push(agent.want("a", modes[index]));
        stage.until_waiting("a", index + 1);
    }
    holder.release("a");
    // Upgradeable comes before write and write before read, so no waiter shares with the next.
    for index in 0..agents.len() {
        agents[index].granted(line[index]);
        let shown = [format!("{} name:a {}", agents[index].owner(), modes[index])];
        assert_eq!(stage.shown(), shown);
        stage.until_waiting("a", agents.len() - index - 1);
        agents[index].release("a");
    }
}

fn a_run_of_readers_enters_and_stops_at_the_writer(stage: &Stage<'_>) {
    let [mut holder, mut r1, mut u2, mut r3, mut w4, mut r5] = stage.agents(
        stage.seen_waiting(),
        ["holder", "r1", "u2", "r3", "w4", "r5"],
    );
    holder.take("a", Mode::Write);
    let wanted_1 = r1.want("a", Mode::Read);
    stage.until_waiting("a", 1);
    let wanted_2 = u2.want("a", Mode::Upgradeable);
    stage.until_waiting("a", 2);
    let wanted_3 = r3.want("a", Mode::Read);
    stage.until_waiting("a", 3);
    let wanted_4 = w4.want("a", Mode::Write);
    stage.until_waiting("a", 4);
    let wanted_5 = r5.want("a", Mode::Read);
    stage.until_waiting("a", 5);
    holder.release("a");
    r1.granted(wanted_1);
    u2.granted(wanted_2);
    r3.granted(wanted_3);
    stage.until_waiting("a", 2);
    assert!(w4.answered(wanted_4).is_none() && r5.answered(wanted_5).is_none());
    for agent in [&mut r1, &mut u2, &mut r3] {
        agent.release("a");
    }
    w4.granted(wanted_4);
    stage.until_waiting("a", 1);
    w4.release("a");
    r5.granted(wanted_5);
}
