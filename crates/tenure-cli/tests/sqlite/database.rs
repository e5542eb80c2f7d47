//! The database deleted, replaced or cut, while it is in use or before.

mod cut;
mod replaced;

use crate::other_sqlite::Database;
use crate::process::{timed, token};
use crate::world::{World, code, text, until};

/// Folds the log into the database, and leaves it empty.
fn fold_the_log(world: &World) {
    Database::of(world).change("PRAGMA wal_checkpoint(TRUNCATE)");
}

/// Asks for x without waiting until it is granted, and returns the token. The grant must not come
/// while the process of the old holder is there. Until then each request is refused at once, as
/// busy or for this reason.
#[track_caller]
fn until_let_in(world: &World, old: u32, reason: &str) -> u64 {
    let script = format!("test -d /proc/{old} && echo two writers; echo $TENURE_TOKEN");
    let mut new = None;
    until("a newcomer is let in", || {
        let run = ["--no-wait", "x", "--", "sh", "-c", &script];
        let (output, took) = timed(|| world.run(run));
        match code(&output) {
            0 => {
                let said = text(&output.stdout);
                assert!(!said.contains("two writers"), "{output:?}");
                new = Some(token(&output));
            }
            69 | 75 => {
                let said = text(&output.stderr);
                assert!(said.contains(reason) || said.contains("held"), "{said}");
            }
            _ => panic!("{output:?}"),
        }
        assert!(took.as_secs() < 5, "it was not to wait: {took:?}");
        new.is_some()
    });
    new.unwrap()
}
