//! Dependencies, index and saves under random work of several processes and threads.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tenure_files::{Board, IssueId};

use crate::place::{Place, id, judge, titled};
use crate::process::Child;

const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Runs a property so often, ten times as often where the long campaigns run. The seed is printed where it fails.
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

/// Follows dependencies from an issue; panics if that leads back to it.
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

/// One thing that someone does.
#[derive(Debug, Clone)]
enum Work {
    Create(usize),
    Delete(usize),
    Note(usize),
    Claim(usize),
    Done(usize),
    List,
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        3 => (0..IDS.len()).prop_map(Work::Create),
        1 => (0..IDS.len()).prop_map(Work::Delete),
        4 => (0..IDS.len()).prop_map(Work::Note),
        1 => (0..IDS.len()).prop_map(Work::Claim),
        1 => (0..IDS.len()).prop_map(Work::Done),
        1 => Just(Work::List),
    ]
}

/// Does it. Returns the note that was acknowledged.
fn carry_out(board: &Board, work: &Work, note: &str) -> Option<(usize, String)> {
    let done = match work {
        Work::Create(at) => board.create(titled(IDS[*at])).map(drop),
        Work::Delete(at) => board.delete(&id(IDS[*at])),
        Work::Note(at) => {
            let noted = board.note(&id(IDS[*at]), note);
            return noted.is_ok().then(|| (*at, note.to_owned()));
        }
        Work::Claim(at) => board.claim(&id(IDS[*at]), None).map(drop),
        Work::Done(at) => board.done(&id(IDS[*at]), None).map(drop),
        Work::List => board.list().map(|list| assert_eq!(list.unreadable, [])),
    };
    if let Err(error) = done {
        use tenure::Class::{Busy, Conflict, NotAllowed, NotFound};
        assert!(
            [Busy, Conflict, NotAllowed, NotFound].contains(&error.class()),
            "{error}"
        );
    }
    None
}

#[test]
fn no_sequence_of_operations_of_several_at_once_corrupts_the_index() {
    let plan = prop::collection::vec(prop::collection::vec(work(), 1..15), 3);
    check(12, &plan, |plan| {
        let place = Place::new();
        let boards = [place.board(), place.board(), place.board()];
        thread::scope(|scope| {
            for (board, own) in boards.iter().zip(&plan) {
                scope.spawn(move || {
                    own.iter()
                        .for_each(|work| drop(carry_out(board, work, "x")))
                });
            }
        });
        judge(&place.root());
    });
}

#[test]
fn every_save_that_succeeded_is_visible() {
    let plan = prop::collection::vec(prop::collection::vec(work(), 1..15), 3);
    check(12, &plan, |plan| {
        let place = Place::new();
        place.add(&["a", "b"]);
        let boards = [place.board(), place.board(), place.board()];
        let saved = thread::scope(|scope| {
            let start = |(number, (board, own)): (usize, (_, &Vec<Work>))| {
                let own = own.clone();
                scope.spawn(move || {
                    let each = own.iter().enumerate();
                    let each = each
                        .filter_map(|(at, work)| carry_out(board, work, &format!("{number}-{at}")));
                    each.collect::<Vec<_>>()
                })
            };
            let threads: Vec<_> = boards.iter().zip(&plan).enumerate().map(start).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        let list = place.board().list().unwrap();
        for (at, note) in saved {
            // One that was deleted after it is gone with its notes.
            if let Some(issue) = list.get(&id(IDS[at])) {
                assert!(
                    issue.notes.iter().any(|own| own.text == note),
                    "{note} is lost"
                );
            }
        }
    });
}
