//! The roles of a child process.

use std::path::Path;
use std::time::Duration;

use tenure_core::{Mode, Result};
use tenure_lockfile::{FileLocker, LockGuard};

use crate::process::{Child, hear, role, say};
use crate::stage::patient;

/// The test that a child process runs. See [`a_child_process_plays_its_role`].
pub const ENTRY: &str = "roles::a_child_process_plays_its_role";

/// In a child this test is the way into its role. In the test run it has no role: it starts such a
/// child, and hears its answer.
#[test]
fn a_child_process_plays_its_role() {
    let Some((role, arguments)) = role() else {
        let mut child = Child::start("echo", &["a", "b c"]);
        let id = child.id();
        assert_eq!(child.ask("hello"), format!("{id} hello [\"a\", \"b c\"]"));
        return child.finish();
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match role.as_str() {
        "echo" => {
            let id = std::process::id();
            while let Some(line) = hear() {
                say(format!("{id} {line} {arguments:?}"));
            }
        }
        "puppet" => puppet(),
        "panic" => panic_while_holding(&arguments),
        "crowd" => crate::crowd::play(&arguments),
        "stream" => crate::fairness::play(&arguments),
        "rival" => crate::upgrade::play(&arguments),
        "look-for-ever" => crate::look::play(&arguments),
        "draw" => crate::tokens::play(&arguments),
        "draw-one" => crate::tokens::play_once(&arguments),
        _ => panic!("no such role: {role}"),
    }
}

/// Takes a lock as it is told:
///
/// ```text
/// lock MODE MILLISECONDS PATH    granted TOKEN | busy HOLDERS
/// try MODE PATH                  granted TOKEN | busy
/// upgrade MILLISECONDS           granted TOKEN | none
/// downgrade, release             MODE, released
/// ```
fn puppet() {
    let mut guard: Option<LockGuard> = None;
    while let Some(line) = hear() {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match word {
            "lock" => {
                let (mode, rest) = rest.split_once(' ').unwrap();
                let (wait, path) = rest.split_once(' ').unwrap();
                let locker = FileLocker::new(millis(wait));
                let granted = locker.lock(Path::new(path), mode.parse().unwrap());
                told(granted.map(|granted| guard.insert(granted).token().get()))
            }
            "try" => {
                let (mode, path) = rest.split_once(' ').unwrap();
                let mode: Mode = mode.parse().unwrap();
                let granted = patient().try_lock(Path::new(path), mode).unwrap();
                match granted {
                    Some(granted) => told(Ok(guard.insert(granted).token().get())),
                    None => "busy".into(),
                }
            }
            "upgrade" => match guard.as_mut().unwrap().upgrade(millis(rest)).unwrap() {
                Some(token) => told(Ok(token.get())),
                None => "none".into(),
            },
            "downgrade" => guard.as_mut().unwrap().downgrade().unwrap().to_string(),
            "release" => {
                guard.take().unwrap().release().unwrap();
                "released".into()
            }
            _ => panic!("not understood: {line}"),
        };
        say(answer);
    }
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

fn told(granted: Result<u64>) -> String {
    match granted {
        Ok(token) => format!("granted {token}"),
        Err(error) => format!("{} {}", error.class().as_str(), error.holders().len()),
    }
}

fn panic_while_holding(arguments: &[&str]) {
    let path = Path::new(arguments[0]);
    let _guard = patient().lock_exclusive(path).unwrap();
    say("held");
    hear();
    panic!("this panic is part of the test");
}
