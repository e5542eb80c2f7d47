//! Commands that are given text and answer with text.

use std::process::Command;
use std::time::{Duration, Instant};

use tenure_os::clock;
use tenure_run::{CallError, CallLimits, call};

const LONG: Duration = Duration::from_secs(60);

fn answer(script: &str, text: &str, time_max: Duration) -> Result<String, CallError> {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let limits = CallLimits {
        end_ms: clock::boot_now() + time_max.as_millis() as u64,
        time_max,
        bytes_max: 10,
    };
    let called = runtime.unwrap().block_on(call(command, [], text, limits));
    called.map(|printed| String::from_utf8(printed).unwrap())
}

#[test]
fn a_command_answers_with_what_it_prints() {
    assert_eq!(answer("tr a-z A-Z", "a word", LONG).unwrap(), "A WORD");
}

#[test]
fn a_command_that_reads_nothing_and_prints_much_ends_well() {
    let text = "x".repeat(1 << 20);
    let printed = answer("yes y | head -c 1000000", &text, LONG).unwrap();
    assert_eq!(printed, "y\ny\ny\ny\ny\n");
}

#[test]
fn a_command_that_fails_has_no_answer() {
    let error = answer("echo x; exit 3", "", LONG).unwrap_err();
    assert_eq!(error.to_string(), "failed: exit status: 3");
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let begun = Instant::now();
    let error = answer("sleep 60", "", Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.to_string(), "took longer than 200ms, and was ended");
    assert!(begun.elapsed() < LONG / 2);
}

#[test]
fn what_a_command_leaves_behind_is_killed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display();
    let begun = Instant::now();
    let script = format!("flock '{path}' sleep 60 & while flock -n '{path}' true; do :; done");
    answer(&script, "", LONG).unwrap();
    file.as_file().lock().unwrap();
    assert!(begun.elapsed() < LONG / 2);
}
