//! Many threads and processes that create, change, read and list.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use tenure_board::NewIssue;
use tenure_lockfile::FileLocker;

use crate::place::{Place, id, titled};
use crate::process::Child;
use crate::site::Process;
use crate::world::{DEADLINE, code};

#[test]
fn ten_threads_that_create_five_issues_each_leave_fifty_in_the_index() {
    let place = Place::new();
    let board = place.board();
    let ids = thread::scope(|scope| {
        let create = || {
            let created =
                (0..5).map(|number| board.create(NewIssue::titled(format!("issue {number}"))));
            created.map(|issue| issue.unwrap().id).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..10).map(|_| scope.spawn(create)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(ids.len(), 50);
    let listed = place.board().list().unwrap();
    assert_eq!(
        listed
            .issues
            .into_iter()
            .map(|issue| issue.id)
            .collect::<BTreeSet<_>>(),
        ids
    );
}

#[test]
fn of_a_hundred_processes_that_create_at_once_none_is_lost() {
    let place = Place::new();
    let start = |number: usize| {
        let title = format!("issue {number}");
        let mut command = place.command(&["add", &title]);
        Process::start(command.env("TENURE_LOCK_TIMEOUT", "120"))
    };
    let processes: Vec<Process> = (0..100).map(start).collect();
    let mut ids = BTreeSet::new();
    for process in processes {
        let output = process.end_within(DEADLINE * 4);
        assert_eq!(code(&output), 0, "{output:?}");
        ids.insert(crate::world::text(&output.stdout).trim().to_owned());
    }
    let listed = place.json(&["ls"]);
    let listed = listed["issues"].as_array().unwrap().iter();
    let listed: BTreeSet<_> = listed
        .map(|issue| issue["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((ids.len(), &listed), (100, &ids));
}

#[test]
fn fifty_threads_that_update_ten_issues_each_lose_no_update() {
    let place = Place::new();
    let ids: Vec<String> = (0..10).map(|number| format!("i{number}")).collect();
    place.add(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let board = place.board();
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                for issue in &ids {
                    let raise = |issue: &mut tenure_board::issue::Issue| {
                        issue.priority += 1;
                        Ok(())
                    };
                    board.update(&id(issue), raise).unwrap();
                }
            });
        }
    });
    for issue in place.board().list().unwrap().issues {
        assert_eq!(issue.priority, 52, "{}", issue.id);
    }
}

#[test]
fn updates_of_one_issue_by_many_processes_all_survive() {
    let place = Place::new();
    place.add(&["a"]);
    let root = place.root().display().to_string();
    let start = |number: usize| Child::start("note", &[&root, "a", &format!("p{number}"), "25"]);
    let children: Vec<Child> = (0..6).map(start).collect();
    for mut child in children {
        assert_eq!(child.answer(), "done");
        child.finish();
    }
    let notes = place.board().issue(&id("a")).unwrap().notes;
    let notes: BTreeSet<String> = notes.into_iter().map(|note| note.text).collect();
    assert_eq!(notes.len(), 150);
}

#[test]
fn updates_of_different_issues_do_not_wait_for_each_other() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let locker = FileLocker::new(DEADLINE);
    let _held = locker.lock_exclusive(&place.path("issues/a.lock")).unwrap();
    place.done(&["set", "b", "priority=7"]);
    assert_eq!(place.issue("b")["priority"], 7);
    // A list does not wait for a writer, either.
    assert_eq!(place.json(&["ls"])["issues"].as_array().unwrap().len(), 2);
}

#[test]
fn readers_see_an_issue_before_a_change_or_after_it_and_never_between() {
    let place = Place::new();
    place.add(&["a", "b"]);
    let (board, readers) = (place.board(), [place.board(), place.board(), place.board()]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in &readers {
            scope.spawn(|| {
                let mut reads = 0;
                while !is_over.load(Relaxed) || reads == 0 {
                    let issue = reader.issue(&id("a")).unwrap();
                    assert!(issue.body.is_empty() || issue.body == issue.title.repeat(2000));
                    let list = reader.list().unwrap();
                    assert_eq!((list.issues.len(), list.unreadable.len()), (2, 0));
                    reads += 1;
                }
            });
        }
        for number in 0..60 {
            let change = |issue: &mut tenure_board::issue::Issue| {
                issue.title = format!("t{number}");
                issue.body = issue.title.repeat(2000);
                Ok(())
            };
            board.update(&id("a"), change).unwrap();
            // The dependency comes and goes while others list.
            match number % 2 {
                0 => board.depend(&id("b"), &id("a")).map(drop).unwrap(),
                _ => board.undepend(&id("b"), &id("a")).map(drop).unwrap(),
            }
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn a_mixed_load_of_threads_and_processes_leaves_index_files_and_log_in_agreement() {
    let place = Place::new();
    place.add(&["shared"]);
    let root = place.root().display().to_string();
    let child = Child::start("note", &[&root, "shared", "child", "20"]);
    let boards = [place.board(), place.board(), place.board()];
    thread::scope(|scope| {
        for (number, board) in boards.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..10 {
                    let own = format!("t{number}-{round}");
                    board.create(titled(&own)).unwrap();
                    board.note(&id("shared"), &own).unwrap();
                    board.claim(&id(&own), None).unwrap();
                    assert!(board.list().unwrap().issues.len() > 1);
                    match round % 3 {
                        0 => board.delete(&id(&own)).unwrap(),
                        1 => board.done(&id(&own), None).map(drop).unwrap(),
                        _ => board.release(&id(&own), None).map(drop).unwrap(),
                    }
                }
            });
        }
    });
    child.finish();
    let list = place.board().list().unwrap();
    assert_eq!(list.issues.len(), 1 + 3 * 6);
    assert_eq!(list.get(&id("shared")).unwrap().notes.len(), 50);
}
