//! Commands from their start to the release of their hold.

use std::fs::File;
use std::future::pending;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_core::{Error, LockContext, Mode, Resource, Result};
use tenure_os::clock;
use tenure_run::{Distrusted, Ended, Held, Outcome, RunsOut, Signals, SpawnError, Watchdog, run};
use tokio::time::sleep;

/// A hold of a test: it is distrusted after some time, with a grace, and remembers its release.
#[derive(Default)]
struct Fake {
    distrusted: Option<(Duration, Duration)>,
    /// The file that the command inherits, by two descriptors.
    file: Option<File>,
    is_dead: bool,
    /// The time since boot at which the hold is over, which needs a watchdog.
    kill_at_ms: Option<u64>,
    released: Arc<Mutex<Vec<Outcome>>>,
}

pub fn context() -> Box<LockContext> {
    let resource = Resource::new("name", "x").unwrap();
    Box::new(LockContext::new(resource, Mode::Write, "test:", "here"))
}

impl Held for Fake {
    async fn distrusted(&self) -> Distrusted<'_> {
        let Some((after, grace)) = self.distrusted else {
            return pending().await;
        };
        sleep(after).await;
        Distrusted {
            context: context(),
            reason: "it is gone".into(),
            grace,
            over: Box::pin(pending()),
        }
    }

    fn runs_out(&self) -> Option<RunsOut> {
        let kill_at_ms = self.kill_at_ms?;
        Some(RunsOut {
            context: context(),
            kill_at_ms,
        })
    }

    fn command_dies_with_us(&self) -> bool {
        true
    }

    fn descriptors(&self) -> impl Iterator<Item = Result<OwnedFd>> {
        let twice = self.file.iter().flat_map(|file| [file, file]);
        twice.map(|file| Ok(file.try_clone().unwrap().into()))
    }

    async fn release(self, outcome: Outcome) -> Result<()> {
        self.released.lock().unwrap().push(outcome);
        if self.is_dead {
            pending().await
        } else {
            Ok(())
        }
    }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Runs a command, and returns the losses that were told meanwhile.
fn run_under(command: Command, held: Fake) -> (Result<Ended, SpawnError>, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let mut signals = Signals::listen().unwrap();
        let mut losses = Vec::new();
        let on_loss = |error: Error| losses.push(error.to_string());
        let watchdog = held.kill_at_ms.map(|_| Watchdog::start().unwrap());
        let ended = run(command, held, watchdog, &mut signals, on_loss).await;
        (ended, losses)
    })
}

#[test]
fn what_a_command_ran_under_is_released_after_it() {
    let held = Fake::default();
    let released = Arc::clone(&held.released);
    let (ended, losses) = run_under(shell("exit 7"), held);
    let ended = ended.unwrap();
    assert_eq!(ended.status.code(), Some(7));
    assert!(!ended.is_lost && ended.released.is_ok() && ended.keyboard.is_none());
    assert!(losses.is_empty(), "{losses:?}");
    let released = released.lock().unwrap();
    assert!(
        matches!(released[..], [Outcome::Ended(status)] if status.code() == Some(7)),
        "{released:?}"
    );
}

#[test]
fn what_a_command_that_cannot_start_would_have_run_under_is_released() {
    let held = Fake::default();
    let released = Arc::clone(&held.released);
    let (ended, _) = run_under(Command::new("/nowhere/x"), held);
    let Err(SpawnError::Program { program, source }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(program, "/nowhere/x");
    assert_eq!(source.kind(), ErrorKind::NotFound);
    let released = released.lock().unwrap();
    assert!(
        matches!(released[..], [Outcome::NotStarted]),
        "{released:?}"
    );
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "exit 5\n").unwrap();
    let made = shell(&format!("chmod +x '{}'", script.display())).status();
    assert!(made.unwrap().success());
    let (ended, _) = run_under(Command::new(&script), Fake::default());
    assert_eq!(ended.unwrap().status.code(), Some(5));
}

#[test]
fn a_command_that_ignores_the_loss_is_killed_when_its_grace_is_over() {
    let grace = Duration::from_millis(300);
    let held = Fake {
        distrusted: Some((Duration::from_millis(300), grace)),
        ..Fake::default()
    };
    let released = Arc::clone(&held.released);
    let begun = Instant::now();
    let (ended, losses) = run_under(shell("trap '' TERM; while :; do sleep 1; done"), held);
    let ended = ended.unwrap();
    assert!(begun.elapsed() >= grace * 2);
    assert_eq!(ended.status.signal(), Some(9));
    assert!(ended.is_lost);
    assert!(
        matches!(losses.as_slice(), [told, killed]
            if told.contains("it is gone; the command was told to end (SIGTERM)")
                && killed.contains("was killed (SIGKILL)")),
        "{losses:?}"
    );
    assert!(matches!(released.lock().unwrap()[..], [Outcome::Lost]));
}

#[test]
fn a_command_without_a_grace_is_killed_at_once() {
    let held = Fake {
        distrusted: Some((Duration::ZERO, Duration::ZERO)),
        ..Fake::default()
    };
    let (ended, losses) = run_under(shell("trap '' TERM; while :; do sleep 1; done"), held);
    assert_eq!(ended.unwrap().status.signal(), Some(9));
    assert_eq!(losses.len(), 1, "{losses:?}");
}

#[test]
fn a_store_that_does_not_answer_is_not_waited_for_when_all_is_lost() {
    let held = Fake {
        distrusted: Some((Duration::ZERO, Duration::from_secs(30))),
        is_dead: true,
        ..Fake::default()
    };
    let (ended, _) = run_under(shell("sleep 60"), held);
    assert!(ended.unwrap().is_lost);
}

#[test]
fn what_is_over_by_time_ends_the_command_and_all_of_its_group() {
    let held = Fake {
        kill_at_ms: Some(clock::boot_now() + 500),
        ..Fake::default()
    };
    let released = Arc::clone(&held.released);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display();
    let script = format!(
        "trap '' TERM; flock '{path}' sleep 60 & while flock -n '{path}' true; do :; done; wait"
    );
    let (ended, losses) = run_under(shell(&script), held);
    let ended = ended.unwrap();
    assert!(
        ended.is_lost && ended.status.signal() == Some(9),
        "{ended:?}"
    );
    assert!(
        matches!(losses.as_slice(), [killed] if killed.contains("was killed (SIGKILL)")),
        "{losses:?}"
    );
    assert!(matches!(released.lock().unwrap()[..], [Outcome::Lost]));
    // The process in the background does not have it any more.
    file.as_file().lock().unwrap();
}

#[test]
fn a_watched_command_inherits_nothing_of_its_watchdog_and_ends_as_it_likes() {
    let held = Fake {
        kill_at_ms: Some(clock::boot_now() + 60_000),
        ..Fake::default()
    };
    let (ended, losses) = run_under(shell("exit $(ls -l /proc/$$/fd | grep -c socket)"), held);
    let ended = ended.unwrap();
    assert_eq!((ended.status.code(), ended.is_lost), (Some(0), false));
    assert!(losses.is_empty(), "{losses:?}");
}

#[test]
fn a_watched_command_that_cannot_start_is_reported_as_any() {
    let held = Fake {
        kill_at_ms: Some(clock::boot_now() + 60_000),
        ..Fake::default()
    };
    let (ended, _) = run_under(Command::new("/nowhere/x"), held);
    let Err(SpawnError::Program { source, .. }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(source.kind(), ErrorKind::NotFound);
}

#[test]
fn of_each_file_the_command_inherits_one_descriptor() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let held = Fake {
        file: Some(file.reopen().unwrap()),
        ..Fake::default()
    };
    let name = file.path().display();
    let script = format!("exit $(ls -l /proc/$$/fd | grep -c '{name}')");
    let (ended, _) = run_under(shell(&script), held);
    assert_eq!(ended.unwrap().status.code(), Some(1));
}
