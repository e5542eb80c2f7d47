//! Dependencies, index and saves under random work of several processes and threads.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tenure_board::issue::{Issue, IssueId, IssueState, PRIORITY_DEFAULT};
use tenure_board::{Board, IssueList};

use crate::place::{Place, id, judge, titled};
use crate::process::Child;

const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Tries a property on so many cases, ten times as many where the long campaigns run. A failure
/// prints its seed.
fn check<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value)) {
    let times = std::env::var_os("TENURE_TEST_EVERY_CALL").map_or(1, |_| 10);
    let config = Config {
        cases: cases * times,
        failure_persistence: None,
        max_shrink_iters: 20,
        ..Config::default()
    };
    let tried = TestRunner::new(config).run(strategy, |value| {
        property(value);
        Ok(())
    });
    tried.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Follows dependencies from each issue; panics if one leads back to its start.
fn require_no_circle(edges: &BTreeMap<String, Vec<String>>) {
    for start in edges.keys() {
        let mut open: Vec<&String> = edges[start].iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(at) = open.pop() {
            assert_ne!(at, start, "a circle: {edges:?}");
            if seen.insert(at) {
                open.extend(edges.get(at).into_iter().flatten());
            }
        }
    }
}

#[test]
fn dependencies_that_several_processes_add_at_once_never_form_a_circle_and_none_is_lost() {
    let edge = (0..IDS.len(), 0..IDS.len()).prop_map(|(a, b)| format!("{}>{}", IDS[a], IDS[b]));
    let edges = prop::collection::vec(prop::collection::vec(edge, 1..12), 3);
    check(8, &edges, |edges| {
        let place = Place::new();
        place.add(&IDS);
        let root = place.root().display().to_string();
        let start = |own: &Vec<String>| {
            let own = own.iter().map(String::as_str);
            Child::start(
                "depend",
                &[root.as_str()].into_iter().chain(own).collect::<Vec<_>>(),
            )
        };
        let children: Vec<Child> = edges.iter().map(start).collect();
        let mut added = BTreeSet::new();
        for (mut child, own) in children.into_iter().zip(&edges) {
            let said = child.answer();
            added.extend(
                own.iter()
                    .zip(said.chars())
                    .filter(|(_, said)| *said == 'y')
                    .map(|(edge, _)| edge.clone()),
            );
            child.finish();
        }
        let list = place.board().list().unwrap();
        let text = |ids: &[IssueId]| ids.iter().map(IssueId::to_string).collect::<Vec<_>>();
        let graph: BTreeMap<_, _> = list
            .issues
            .iter()
            .map(|issue| (issue.id.to_string(), text(&issue.depends_on)))
            .collect();
        require_no_circle(&graph);
        let found: BTreeSet<String> = graph
            .iter()
            .flat_map(|(a, on)| on.iter().map(move |b| format!("{a}>{b}")))
            .collect();
        assert_eq!(found, added);
    });
}

/// One operation on the board.
#[derive(Debug, Clone, PartialEq)]
enum Work {
    Create(usize),
    Delete(usize),
    Note(usize),
    Raise(usize),
    Claim(usize),
    Done(usize),
    List,
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        3 => (0..IDS.len()).prop_map(Work::Create),
        1 => (0..IDS.len()).prop_map(Work::Delete),
        4 => (0..IDS.len()).prop_map(Work::Note),
        2 => (0..IDS.len()).prop_map(Work::Raise),
        1 => (0..IDS.len()).prop_map(Work::Claim),
        1 => (0..IDS.len()).prop_map(Work::Done),
        1 => Just(Work::List),
    ]
}

/// Makes an operation. Returns true if it was acknowledged.
fn carry_out(board: &Board, work: &Work, note: &str) -> bool {
    let raise = |issue: &mut Issue| {
        issue.priority += 1;
        Ok(())
    };
    let done = match work {
        Work::Create(at) => board.create(titled(IDS[*at])).map(drop),
        Work::Delete(at) => board.delete(&id(IDS[*at])),
        Work::Note(at) => board.note(&id(IDS[*at]), note).map(drop),
        Work::Raise(at) => board.update(&id(IDS[*at]), raise).map(drop),
        Work::Claim(at) => board.claim(&id(IDS[*at]), None).map(drop),
        Work::Done(at) => board.done(&id(IDS[*at]), None).map(drop),
        Work::List => board.list().map(|list| assert_eq!(list.unreadable, [])),
    };
    if let Err(error) = &done {
        use tenure::Class::{Busy, Conflict, NotAllowed, NotFound};
        assert!(
            [Busy, Conflict, NotAllowed, NotFound].contains(&error.class()),
            "{error}"
        );
    }
    done.is_ok()
}

/// Lets three threads carry out their plans. Returns the acknowledged operations, each with the
/// text for its note.
fn carry_out_at_once(place: &Place, plan: &[Vec<Work>]) -> Vec<(Work, String)> {
    let boards = [place.board(), place.board(), place.board()];
    thread::scope(|scope| {
        let start = |(number, (board, own)): (usize, (_, &Vec<Work>))| {
            let own = own.clone();
            scope.spawn(move || {
                let named = own.into_iter().enumerate();
                let named = named.map(|(at, work)| (work, format!("{number}-{at}")));
                named
                    .filter(|(work, note)| carry_out(board, work, note))
                    .collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = boards.iter().zip(plan).enumerate().map(start).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.flatten().collect()
    })
}

/// Checks that every acknowledged change is there, and no other: no process was killed, so nothing
/// is in doubt.
fn check_saved(saved: &[(Work, String)], first: &[&str], list: &IssueList) -> Result<(), String> {
    for (at, name) in IDS.iter().enumerate() {
        let times = |work: Work| saved.iter().filter(|(saved, _)| *saved == work).count();
        let was_there = first.contains(name);
        let (created, deleted) = (times(Work::Create(at)), times(Work::Delete(at)));
        if created + usize::from(was_there) < deleted || created + usize::from(was_there) > 1 {
            return Err(format!(
                "{name} was created {created} times, deleted {deleted} times"
            ));
        }
        let is_expected = created + usize::from(was_there) > deleted;
        let issue = match list.get(&id(name)) {
            None if !is_expected => continue,
            None => return Err(format!("{name} is gone, and nobody deleted it")),
            Some(_) if !is_expected => return Err(format!("{name} is there")),
            Some(issue) => issue,
        };
        let is_note = |(work, _): &&(Work, String)| *work == Work::Note(at);
        let noted: BTreeSet<&String> = saved.iter().filter(is_note).map(|(_, note)| note).collect();
        let notes: Vec<&String> = issue.notes.iter().map(|note| &note.text).collect();
        let is_done = times(Work::Done(at)) > 0;
        let expected = (
            noted.len(),
            noted,
            PRIORITY_DEFAULT as usize + times(Work::Raise(at)),
            is_done,
            !is_done && times(Work::Claim(at)) > 0,
        );
        let found = (
            notes.len(),
            notes.into_iter().collect(),
            issue.priority as usize,
            issue.state == IssueState::Done,
            issue.claim.is_some(),
        );
        if found != expected {
            return Err(format!("{name} is {found:?}, not {expected:?}"));
        }
    }
    Ok(())
}

#[test]
fn no_sequence_of_operations_of_several_at_once_corrupts_the_index() {
    let plan = prop::collection::vec(prop::collection::vec(work(), 1..15), 3);
    check(12, &plan, |plan| {
        let place = Place::new();
        carry_out_at_once(&place, &plan);
        judge(&place.root());
    });
}

#[test]
fn every_save_that_succeeded_is_visible() {
    let plan = prop::collection::vec(prop::collection::vec(work(), 1..15), 3);
    check(12, &plan, |plan| {
        let (place, first) = (Place::new(), ["a", "b"]);
        place.add(&first);
        let saved = carry_out_at_once(&place, &plan);
        let list = place.board().list().unwrap();
        if let Err(lost) = check_saved(&saved, &first, &list) {
            panic!("{lost}: {saved:?}");
        }
    });
}

#[test]
fn a_save_that_is_not_visible_is_found() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let board = place.board();
    let done = |work: &[Work]| {
        let named = work.iter().map(|work| (work.clone(), "x".to_owned()));
        named.collect::<Vec<_>>()
    };
    let finds = |saved: &[Work], problem: &str| {
        let found = check_saved(&done(saved), &["a", "b"], &board.list().unwrap());
        let found = found.err().unwrap_or_default();
        assert!(found.contains(problem), "{found}");
        assert_eq!(found.is_empty(), problem.is_empty(), "{found}");
    };
    finds(&[], "");
    for work in [Work::Note(0), Work::Raise(0), Work::Claim(0), Work::Done(0)] {
        finds(&[work], "a is ");
    }
    finds(&[Work::Create(2)], "c is gone");
    finds(&[Work::Delete(0)], "a is there");
    carry_out(&board, &Work::Note(0), "x");
    finds(&[Work::Note(0)], "");
    finds(&[], "a is ");
    carry_out(&board, &Work::Delete(0), "");
    finds(&[Work::Note(0)], "a is gone, and nobody deleted it");
    finds(&[Work::Note(0), Work::Delete(0)], "");
}
