//! The roles of a child process.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Error, Result};
use tenure_files::Cancel;
use tenure_files::node_lock::NodeLock;

use crate::process::{Child, hear, role, say};
use crate::stage::LONG;

/// The test that a child process runs. See [`a_child_process_plays_its_role`].
pub const ENTRY: &str = "roles::a_child_process_plays_its_role";

/// In a child this test is the way into its role. In the test run it has no role: it starts such a
/// child, and hears its answer.
#[test]
fn a_child_process_plays_its_role() {
    let Some((role, arguments)) = role() else {
        let mut child = Child::start("puppet", &[]);
        assert_eq!(child.ask("verify"), "nothing held");
        return child.finish();
    };
    match role.as_str() {
        "puppet" => puppet(),
        "once" => once(Path::new(&arguments[0])),
        _ => panic!("no such role: {role}"),
    }
}

/// Takes and releases the lock of a document.
fn once(document: &Path) {
    // strace counts calls by thread, and the threads of the harness make some, too. After these
    // calls the numbers of this thread are higher than all of theirs.
    for _ in 0..50 {
        let _ = std::fs::File::open("/dev/null").and_then(|file| file.metadata());
    }
    let deadline = Instant::now() + LONG;
    let lock = NodeLock::acquire(document, deadline, &Cancel::default(), Arc::new(|_| ())).unwrap();
    lock.check().unwrap();
    lock.release().unwrap();
    say("released");
}

/// Takes a lock as it is told, and says `told REASON` when it learns that the lock is lost:
///
/// ```text
/// acquire MILLISECONDS DOCUMENT    held | busy
/// verify, release                  held, released | lost
/// ```
fn puppet() {
    let mut held: Option<NodeLock> = None;
    while let Some(line) = hear() {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match (word, held.take()) {
            ("acquire", None) => {
                let (wait, document) = rest.split_once(' ').unwrap();
                let wait = Duration::from_millis(wait.parse().unwrap());
                let tell = Arc::new(|reason: &str| say(format!("told {reason}")));
                let deadline = Instant::now() + wait;
                let taken =
                    NodeLock::acquire(Path::new(document), deadline, &Cancel::default(), tell);
                told(taken.map(|lock| held.insert(lock)), "held")
            }
            ("verify", Some(lock)) => told(held.insert(lock).check(), "held"),
            ("release", Some(lock)) => told(lock.release(), "released"),
            (_, None) => "nothing held".into(),
            _ => panic!("not understood: {line}"),
        };
        say(answer);
    }
}

fn told<T>(result: Result<T>, well: &str) -> String {
    match result {
        Ok(_) => well.into(),
        Err(Error::Lost { .. }) => "lost".into(),
        Err(Error::Timeout { .. }) => "busy".into(),
        Err(error) => error.to_string(),
    }
}

/// Starts a puppet that holds the lock of a document.
pub fn holder(document: &Path) -> Child {
    let mut child = Child::start("puppet", &[]);
    assert_eq!(child.ask(acquire(LONG, document)), "held");
    child
}

/// Returns the line that tells a puppet to take a lock.
pub fn acquire(wait: Duration, document: &Path) -> String {
    format!("acquire {} {}", wait.as_millis(), document.display())
}
