//! Rows above the locks: what a change compares, what it writes, and what an unfinished change
//! leaves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tenure::audit::{Action, AuditQuery};
use tenure::{Class, Mode, Owner, Result};
use tenure_core::records::{
    BODY_BYTES_MAX, Changes, Column, Columns, Expected, Fence, NewEntry, Record, RecordChange,
    RecordKey, RecordQuery, Seen,
};
use tokio::time::timeout;

use super::cancellation::{poll_times, polls_max};
use super::case::{Case, case};
use crate::agent::lease_words::LeaseCommand;
use crate::agent::resource;
use crate::agent::tend::increment;
use crate::agent::words::{Answer, Command};
use crate::stage::{Stage, TTL_SHORT, until};

pub(super) const CASES: &[Case] = &[
    case!(a_record_is_read_as_it_was_written, Records),
    case!(
        a_change_of_several_records_is_made_whole_or_not_at_all,
        Records
    ),
    case!(
        of_two_changes_that_rely_on_one_version_one_is_refused,
        Records
    ),
    case!(
        a_record_that_is_not_there_is_made_by_one_change_only,
        Records
    ),
    case!(
        changes_that_name_records_in_any_order_all_come_to_an_end,
        Records
    ),
    case!(
        increments_of_16_processes_are_all_there_and_nobody_starves,
        Records
    ),
    case!(slow a_change_under_a_lease_that_is_over_changes_nothing, Records),
    case!(a_change_under_a_fenced_token_changes_nothing, Records),
    case!(pages_show_every_record_once_while_others_change, Records),
    case!(a_column_lists_only_what_has_it_now, Records),
    case!(
        a_change_dropped_at_any_await_is_made_whole_or_not_at_all,
        Records
    ),
    case!(
        a_process_killed_while_it_changes_loses_nothing_it_was_told,
        Records
    ),
    case!(
        the_audit_tells_of_a_change_that_was_made_and_of_no_other,
        Records
    ),
    case!(a_change_wakes_the_session_that_it_names, Records),
];

/// Short forms that read, change and list, and that fail the test on an error.
impl Stage<'_> {
    fn record(&self, key: &RecordKey) -> Option<Record> {
        let records = self.keeper().records("a test").unwrap();
        self.block_on(records.read(key)).unwrap()
    }

    fn change(&self, change: &RecordChange<'_>) -> Result<Vec<Record>> {
        let records = self.keeper().records("a test").unwrap();
        self.block_on(records.change(change))
    }

    fn put(&self, key: &RecordKey, columns: Columns, body: Value) -> Record {
        let put = |_: &Seen| Ok(put(key, columns.clone(), body.clone()));
        self.change(&RecordChange::new([key.clone()], &put))
            .unwrap()
            .remove(0)
    }

    fn pages(&self, query: RecordQuery, mut between: impl FnMut(usize)) -> Vec<String> {
        let (mut query, mut ids, mut pages) = (query, Vec::new(), 0);
        loop {
            let records = self.keeper().records("a test").unwrap();
            let page = self.block_on(records.list(&query)).unwrap();
            assert!(page.records.len() <= query.limit);
            ids.extend(page.records.iter().map(|record| record.key.id().to_owned()));
            let Some(next) = page.next else {
                return ids;
            };
            query.after = Some(next);
            between(pages);
            pages += 1;
        }
    }
}

fn key(id: &str) -> RecordKey {
    RecordKey::new("thing", id).unwrap()
}

fn put(key: &RecordKey, columns: Columns, body: Value) -> Changes {
    let mut changes = Changes::default();
    changes.put(key.clone(), columns, body);
    changes
}

fn a_record_is_read_as_it_was_written(stage: &Stage<'_>) {
    let columns = Columns {
        state: Some("é '\"\\".into()),
        owner: None,
        subject: Some(String::new()),
    };
    let largest = json!("x".repeat(BODY_BYTES_MAX - 2));
    let bodies = [
        json!({"z": 1, "a": [0.1, 1e300, -0.0, 9_007_199_254_740_993_u64], "t": "\u{0}\n\u{1f512}"}),
        json!(null),
        largest,
    ];
    assert_eq!(stage.record(&key("a")), None);
    for (body, version) in bodies.into_iter().zip(1..) {
        let written = stage.put(&key("a"), columns.clone(), body.clone());
        let read = stage.record(&key("a")).unwrap();
        assert_eq!((read.version, &read.columns), (version, &columns));
        assert_eq!(read.body.to_string(), body.to_string());
        assert_eq!(written.version, version);
    }
    let too_large = |_: &Seen| {
        let body = json!("x".repeat(BODY_BYTES_MAX - 1));
        Ok(put(&key("a"), Columns::default(), body))
    };
    let refused = stage
        .change(&RecordChange::new([key("a")], &too_large))
        .unwrap_err();
    assert_eq!(refused.class(), Class::BadInput);
    assert_eq!(stage.record(&key("a")).unwrap().version, 3);
}

fn a_change_of_several_records_is_made_whole_or_not_at_all(stage: &Stage<'_>) {
    let keys = ["b", "a", "c"].map(key);
    let moves = |fails: bool| {
        let keys = keys.clone();
        move |seen: &Seen| {
            let mut changes = Changes::default();
            changes.put(keys[0].clone(), Columns::default(), json!(1));
            changes.put(keys[2].clone(), Columns::default(), json!(2));
            changes.delete(keys[1].clone());
            let decided = if fails {
                Err(tenure::Error::BadInput("no".into()))
            } else {
                Ok(changes)
            };
            decided.inspect(|_| assert!(seen.get(&keys[1]).is_some()))
        }
    };
    stage.put(&keys[1], Columns::default(), json!(0));
    let refused = moves(true);
    let refused = stage
        .change(&RecordChange::new(keys.clone(), &refused))
        .unwrap_err();
    assert_eq!(refused.class(), Class::BadInput);
    let there = || {
        keys.each_ref()
            .map(|key| stage.record(key).map(|record| record.body))
    };
    assert_eq!(there(), [None, Some(json!(0)), None]);
    let made = moves(false);
    stage
        .change(&RecordChange::new(keys.clone(), &made))
        .unwrap();
    assert_eq!(there(), [Some(json!(1)), None, Some(json!(2))]);
}

fn of_two_changes_that_rely_on_one_version_one_is_refused(stage: &Stage<'_>) {
    let version = stage
        .put(&key("a"), Columns::default(), json!("before"))
        .version;
    let records = stage.keeper().records("a test").unwrap();
    for round in 0..20 {
        let expected = Expected::Version(version + round);
        let writes =
            |who: &'static str| move |_: &Seen| Ok(put(&key("a"), Columns::default(), json!(who)));
        let (ana, bo) = (writes("ana"), writes("bo"));
        let ana = RecordChange::new([], &ana).expecting(key("a"), expected);
        let bo = RecordChange::new([], &bo).expecting(key("a"), expected);
        let (ana, bo) =
            stage.block_on(async { tokio::join!(records.change(&ana), records.change(&bo)) });
        let (made, refused) = match (ana, bo) {
            (Ok(made), Err(refused)) | (Err(refused), Ok(made)) => (made, refused),
            both => panic!("one of them wins: {both:?}"),
        };
        assert_eq!(refused.class(), Class::Conflict, "{refused}");
        assert_eq!(stage.record(&key("a")), Some(made[0].clone()));
    }
}

fn a_record_that_is_not_there_is_made_by_one_change_only(stage: &Stage<'_>) {
    let records = stage.keeper().records("a test").unwrap();
    for round in 0..10 {
        let key = key(&format!("{round}"));
        let makes = |who: u32| {
            let key = key.clone();
            move |_: &Seen| Ok(put(&key, Columns::default(), json!(who)))
        };
        let makes: Vec<_> = (0..4).map(makes).collect();
        let made = stage.block_on(async {
            let mut tasks = Vec::new();
            for make in &makes {
                let change = RecordChange::new([], make).expecting(key.clone(), Expected::Absent);
                tasks.push(
                    async move { records.change(&change).await.map_err(|error| error.class()) },
                );
            }
            let [a, b, c, d] = <[_; 4]>::try_from(tasks).ok().unwrap();
            tokio::join!(a, b, c, d)
        });
        let made = [made.0, made.1, made.2, made.3];
        assert_eq!(made.iter().filter(|one| one.is_ok()).count(), 1, "{made:?}");
        let refused = made.iter().filter_map(|one| one.as_ref().err());
        assert!(refused.into_iter().all(|class| *class == Class::Conflict));
    }
}

fn changes_that_name_records_in_any_order_all_come_to_an_end(stage: &Stage<'_>) {
    let keys: Vec<RecordKey> = (0..6).map(|id| key(&id.to_string())).collect();
    let add_to_all = |seen: &Seen| {
        let mut changes = Changes::default();
        for key in &keys {
            let before = seen
                .get(key)
                .map_or(0, |record| record.body.as_u64().unwrap());
            changes.put(key.clone(), Columns::default(), json!(before + 1));
        }
        Ok(changes)
    };
    let records = stage.keeper().records("a test").unwrap();
    let again = |forwards: bool| {
        let mut keys = keys.clone();
        let add_to_all = &add_to_all;
        async move {
            if !forwards {
                keys.reverse();
            }
            for _ in 0..20 {
                records
                    .change(&RecordChange::new(keys.clone(), add_to_all))
                    .await
                    .unwrap();
            }
        }
    };
    stage.block_on(async { tokio::join!(again(true), again(false), again(true), again(false)) });
    for key in &keys {
        assert_eq!(stage.record(key).unwrap().body, json!(80));
    }
}

fn increments_of_16_processes_are_all_there_and_nobody_starves(stage: &Stage<'_>) {
    const TIMES: u32 = 25;
    let mut agents = stage.agents(
        stage.apart(),
        [
            "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13",
            "p14", "p15", "p16",
        ],
    );
    let (id, times) = ("shared".to_owned(), TIMES);
    let asked = agents.each_mut().map(|agent| {
        let id = id.clone();
        agent.send(Command::OnLease(LeaseCommand::Increment { id, times }))
    });
    for (agent, asked) in agents.iter_mut().zip(asked) {
        match agent.answer(asked) {
            // The claim is that no process is passed over again and again, not that changes are
            // fast.
            Answer::Told { list } => assert!(list.as_u64().unwrap() < 20_000, "{list} ms"),
            other => panic!("{other:?}"),
        }
    }
    let record = RecordKey::new("counter", id).unwrap();
    let record = stage.record(&record).unwrap();
    assert_eq!(record.body, json!(16 * TIMES));
    assert_eq!(record.version, u64::from(16 * TIMES));
}

fn fence(lease: &tenure::Lease) -> Fence {
    Fence {
        resource: lease.resource.clone(),
        token: lease.token,
        lease: Some(lease.lease.clone()),
    }
}

/// Returns true if a change under a lease is made, false if it is refused as not allowed.
fn is_made(stage: &Stage<'_>, fence: Fence) -> bool {
    let before = stage.record(&key("a")).map_or(0, |record| record.version);
    let write = |_: &Seen| {
        let mut changes = put(&key("a"), Columns::default(), json!("written"));
        changes.note(note());
        Ok(changes)
    };
    let noted = || {
        let all = stage.audit(&AuditQuery::default());
        all.iter()
            .filter(|entry| entry.action == Action::Publish)
            .count()
    };
    let noted_before = noted();
    let made = stage.change(&RecordChange::new([key("a")], &write).under(fence));
    if let Err(error) = &made {
        assert_eq!(error.class(), Class::NotAllowed, "{error}");
    }
    let after = stage.record(&key("a")).map_or(0, |record| record.version);
    assert_eq!(after - before, u64::from(made.is_ok()));
    assert_eq!(noted() - noted_before, usize::from(made.is_ok()));
    made.is_ok()
}

fn a_change_under_a_lease_that_is_over_changes_nothing(stage: &Stage<'_>) {
    let [mut ana, mut boss] = stage.agents(stage.apart(), ["ana", "boss"]);
    let lease = ana.lock("l", Mode::Write, TTL_SHORT);
    assert!(is_made(stage, fence(&lease)));
    stage.until_expired(&lease.lease);
    assert!(!is_made(stage, fence(&lease)), "its time is over");
    ana.renew(&lease.lease);
    assert!(is_made(stage, fence(&lease)), "it was renewed");
    ana.release_lease(&lease.lease);
    assert!(!is_made(stage, fence(&lease)), "it was released");
    let held = ana.take("m", Mode::Write);
    assert!(is_made(stage, fence(&held)), "a guard has it");
    boss.break_lease(&held.lease, "to see what happens");
    assert!(!is_made(stage, fence(&held)), "it is being broken");
    until("it is over", || stage.listed(&held.lease).is_none());
    assert!(!is_made(stage, fence(&held)), "it was broken");
}

fn a_change_under_a_fenced_token_changes_nothing(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let first = ana.take("l", Mode::Write);
    let token_alone = |lease: &tenure::Lease| Fence {
        lease: None,
        ..fence(lease)
    };
    assert!(is_made(stage, token_alone(&first)));
    ana.release("l");
    assert!(
        is_made(stage, token_alone(&first)),
        "it is still the newest token"
    );
    let second = bo.take("l", Mode::Write);
    assert!(!is_made(stage, fence(&first)));
    assert!(!is_made(stage, token_alone(&first)));
    assert!(is_made(stage, fence(&second)));
    let unknown = Fence {
        resource: resource("never"),
        ..token_alone(&second)
    };
    assert!(
        !is_made(stage, unknown),
        "a token of a resource that was never locked"
    );
    let other = Fence {
        lease: Some(first.lease),
        ..fence(&second)
    };
    assert!(!is_made(stage, other), "the lease of somebody else");
    bo.release("l");
}

fn pages_show_every_record_once_while_others_change(stage: &Stage<'_>) {
    let columns = |state: &str| Columns {
        state: Some(state.into()),
        ..Columns::default()
    };
    let name = |number: usize| format!("{number:04}");
    for number in (0..60).step_by(2) {
        stage.put(&key(&name(number)), columns("open"), json!(0));
    }
    let open = Column::State("open".into());
    for query in [
        RecordQuery::new("thing"),
        RecordQuery::new("thing").with_column(open),
    ] {
        let mut query = query;
        query.limit = 7;
        let ids = stage.pages(query, |page| {
            // Records on both sides of the boundary are changed, made and deleted.
            for number in [0, 7 * page + 14, 7 * page + 16] {
                stage.put(&key(&name(number / 2 * 2)), columns("open"), json!(page));
            }
            stage.put(&key(&name(2 * page + 1)), columns("open"), json!(1));
            let gone = key(&name(2 * page + 1));
            let delete = |_: &Seen| {
                let mut changes = Changes::default();
                changes.delete(gone.clone());
                Ok(changes)
            };
            stage
                .change(&RecordChange::new([gone.clone()], &delete))
                .unwrap();
        });
        let even: Vec<String> = (0..60).step_by(2).map(name).collect();
        assert!(ids.is_sorted());
        let seen: Vec<String> = ids.into_iter().filter(|id| even.contains(id)).collect();
        assert_eq!(seen, even);
    }
}

fn a_column_lists_only_what_has_it_now(stage: &Stage<'_>) {
    let columns = |state: &str, owner: &str| Columns {
        state: Some(state.into()),
        owner: Some(owner.into()),
        subject: Some(format!("{state} {owner}")),
    };
    stage.put(&key("a"), columns("open", "ana"), json!(0));
    stage.put(&key("b"), columns("open", "bo"), json!(0));
    stage.put(&key("c"), Columns::default(), json!(0));
    let other = RecordKey::new("other", "a").unwrap();
    stage.put(&other, columns("open", "ana"), json!(0));
    let list = |column: Column| {
        let query = RecordQuery::new("thing").with_column(column);
        stage.pages(query, |_| {}).join(" ")
    };
    assert_eq!(list(Column::State("open".into())), "a b");
    assert_eq!(list(Column::Owner("ana".into())), "a");
    assert_eq!(list(Column::Subject("open bo".into())), "b");
    stage.put(&key("b"), columns("done", "bo"), json!(0));
    assert_eq!(list(Column::State("open".into())), "a");
    assert_eq!(list(Column::State("done".into())), "b");
    assert_eq!(list(Column::Owner("bo".into())), "b");
    assert_eq!(
        stage.pages(RecordQuery::new("thing"), |_| {}).join(" "),
        "a b c"
    );
}

fn a_change_dropped_at_any_await_is_made_whole_or_not_at_all(stage: &Stage<'_>) {
    let keys = [key("a"), key("b")];
    let add_to_both = |seen: &Seen| {
        let mut changes = Changes::default();
        for key in &keys {
            let before = seen
                .get(key)
                .map_or(0, |record| record.body.as_u64().unwrap());
            changes.put(key.clone(), Columns::default(), json!(before + 1));
        }
        Ok(changes)
    };
    let both = || {
        keys.each_ref()
            .map(|key| stage.record(key).map_or(0, |record| record.version))
    };
    let records = stage.keeper().records("a test").unwrap();
    for polls in 0..polls_max(stage) {
        let before = both();
        assert_eq!(before[0], before[1], "after {polls} polls");
        let change = RecordChange::new(keys.clone(), &add_to_both);
        let mut changing = Box::pin(records.change(&change));
        let done = stage.block_on(poll_times(&mut changing, polls));
        stage.block_on(async { drop(changing) });
        // The next change waits until the server has ended the dropped one.
        stage
            .change(&RecordChange::new(keys.clone(), &add_to_both))
            .unwrap();
        let after = both();
        assert_eq!(after[0], after[1], "after {polls} polls");
        let made = after[0] - before[0];
        assert!(
            made == 2 || made == 1 && done.is_none(),
            "{made} after {polls} polls"
        );
    }
}

fn a_process_killed_while_it_changes_loses_nothing_it_was_told(stage: &Stage<'_>) {
    for _ in 0..5 {
        let [mut ana] = stage.agents(stage.apart(), ["ana"]);
        let key = RecordKey::new("counter", "killed").unwrap();
        let value = || {
            stage
                .record(&key)
                .map_or(0, |record| record.body.as_u64().unwrap())
        };
        let before = value();
        let (id, times) = ("killed".to_owned(), 1_000_000);
        let _never = ana.send(Command::OnLease(LeaseCommand::Increment { id, times }));
        until("it changes the record", || value() > before + 3);
        ana.crash();
        // The record is whole, and the work goes on from it.
        let told = stage.block_on(increment(stage.keeper(), "killed")).unwrap();
        let record = stage.record(&key).unwrap();
        assert_eq!((record.body, record.version), (json!(told), told));
    }
}

fn note() -> NewEntry {
    NewEntry {
        action: Action::Publish,
        resource: resource("file:/x"),
        lease: None,
        token: None,
        owner: Owner::parse("ana").unwrap(),
        actor: Owner::parse("bo").unwrap(),
        reason: Some("because".into()),
    }
}

fn the_audit_tells_of_a_change_that_was_made_and_of_no_other(stage: &Stage<'_>) {
    let write = |good: bool| {
        move |_: &Seen| {
            let mut changes = put(&key("a"), Columns::default(), json!(0));
            changes.note(note());
            if good {
                Ok(changes)
            } else {
                Err(tenure::Error::BadInput("no".into()))
            }
        }
    };
    let (good, bad) = (write(true), write(false));
    stage
        .change(&RecordChange::new([key("a")], &bad))
        .unwrap_err();
    assert_eq!(stage.audit_of("file:/x"), []);
    stage.change(&RecordChange::new([key("a")], &good)).unwrap();
    let entries = stage.audit_of("file:/x");
    assert_eq!(entries.len(), 1);
    let entry = &entries[0];
    assert_eq!(
        (entry.action, &entry.lease, entry.token),
        (Action::Publish, &None, None)
    );
    assert_eq!((entry.owner.as_str(), entry.actor.as_str()), ("ana", "bo"));
    assert_eq!(entry.reason.as_deref(), Some("because"));
}

fn a_change_wakes_the_session_that_it_names(stage: &Stage<'_>) {
    let (ana, bo) = (stage.session("ana"), stage.session("bo"));
    let records = stage.keeper().records("a test").unwrap();
    let [ana, bo] =
        [&ana, &bo].map(|session| stage.block_on(records.listen(session.id())).unwrap());
    for wakes in [false, true] {
        let address = ana.address().clone();
        let committed = AtomicBool::new(false);
        let wake = |_: &Seen| {
            let mut changes = put(&key("a"), Columns::default(), json!(wakes));
            if wakes {
                changes.wake(address.clone());
            }
            Ok(changes)
        };
        stage.block_on(async {
            let change = RecordChange::new([key("a")], &wake);
            let changes = async {
                records.change(&change).await.unwrap();
                committed.store(true, Ordering::SeqCst);
            };
            let woken = async {
                timeout(Duration::from_millis(300), ana.woken())
                    .await
                    .is_ok()
            };
            if wakes {
                let (_, woken) = tokio::join!(changes, ana.woken());
                woken.unwrap();
                let record = records.read(&key("a")).await.unwrap().unwrap();
                assert_eq!(record.body, json!(true), "it is woken after the commit");
            } else {
                assert!(!tokio::join!(changes, woken).1);
            }
            assert!(committed.load(Ordering::SeqCst));
            assert!(
                timeout(Duration::from_millis(50), bo.woken())
                    .await
                    .is_err()
            );
        });
    }
}
