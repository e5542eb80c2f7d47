//! The roles of a child process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tenure_board::{Next, Take};

use crate::place::{id, open, open_for};
use crate::process::{Child, role, say};

/// The test that a child process runs. See [`a_child_process_plays_its_role`].
pub const ENTRY: &str = "roles::a_child_process_plays_its_role";

/// In a child this test is the way into its role. In the test run it has no role: it starts such a
/// child, and hears its answer.
#[test]
fn a_child_process_plays_its_role() {
    let Some((role, arguments)) = role() else {
        let mut child = Child::start("echo", &["here"]);
        assert_eq!(child.answer(), "here");
        return child.finish();
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (role.as_str(), &arguments[..]) {
        ("echo", [word]) => say(word),
        ("note", [root, issue, name, times]) => note(root.as_ref(), issue, name, times),
        ("agent", [root, name, rounds]) => agent(root.as_ref(), name, rounds),
        ("campaign", [root, journal, owner, seed]) => {
            crate::campaign::work(root.as_ref(), journal.as_ref(), owner, seed)
        }
        ("depend", [root, edges @ ..]) => depend(root.as_ref(), edges),
        _ => panic!("no such role: {role}"),
    }
}

/// Adds so many notes to an issue.
fn note(root: &Path, issue: &str, name: &str, times: &str) {
    let board = open(root);
    for number in 0..times.parse::<u32>().unwrap() {
        board.note(&id(issue), &format!("{name} {number}")).unwrap();
    }
    say("done");
}

/// Takes the next issue again and again, in the name of an agent, until nothing is left. While it
/// has an issue it makes a file that must not exist yet. It releases the issue in the first rounds,
/// and later marks it as done.
fn agent(root: &Path, name: &str, rounds: &str) {
    let owner = tenure::Owner::parse(name).unwrap();
    let asker = tenure::SessionOptions::new(owner).asker();
    let board = open_for(root, Duration::from_secs(120), asker);
    let (mut released, mut done) = (0, 0);
    let rounds: u32 = rounds.parse().unwrap();
    loop {
        let issue = match board.next(None, Take::Claim(None)).unwrap() {
            Next::Issue(issue) => issue,
            Next::Nothing(unready) if unready.open == 0 => break,
            Next::Nothing(_) => continue,
        };
        let token = issue.claim.unwrap().token;
        let mark = root.with_file_name(format!("mark-{}", issue.id));
        fs::File::create_new(&mark).expect("two have the same issue");
        fs::remove_file(&mark).unwrap();
        if released < rounds {
            released += 1;
            board.release(&issue.id, Some(token)).unwrap();
        } else {
            done += 1;
            board.done(&issue.id, Some(token)).unwrap();
        }
    }
    say(format!("{released} {done}"));
}

/// Adds dependencies `a>b`, and says for each whether it was allowed.
fn depend(root: &Path, edges: &[&str]) {
    let board = open(root);
    let mut said = String::new();
    for edge in edges {
        let (issue, on) = edge.split_once('>').unwrap();
        let added = board.depend(&id(issue), &id(on));
        if let Err(error) = &added {
            assert_eq!(error.class(), tenure::Class::Conflict, "{error}");
        }
        said.push(if added.is_ok() { 'y' } else { 'n' });
    }
    say(said);
}
