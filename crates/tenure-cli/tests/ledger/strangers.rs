//! Programs that follow the protocol for external tools, and the locks they make.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use tenure_ledger::LedgerError;

use crate::place::{Place, X};
use crate::site::Process;
use crate::world::{code, text};

/// The script of the protocol, word for word, but for the path.
fn script(place: &Place) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ledger/append.sh");
    let script = fs::read_to_string(script).unwrap();
    assert!(script.contains("PROOF_DIR=\"/path/to/proof\""));
    let script = script.replace("/path/to/proof", place.world.path("p").to_str().unwrap());
    let path = place.world.path("append.sh");
    fs::write(&path, script).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_script_of_the_protocol_in_four_processes_beside_eight_of_ours_loses_nothing() {
    let place = Place::new();
    let script = script(&place);
    let times = 6;
    let theirs = format!("for i in $(seq {times}); do bash {script} || exit 1; done");
    let ours = format!(
        "for i in $(seq {times}); do \"$TENURE\" ledger append p --wait 300s '{X}' || exit 1; done"
    );
    let theirs: Vec<_> = (0..4)
        .map(|_| Process::shell(&place.world, &theirs))
        .collect();
    let ours: Vec<_> = (0..8)
        .map(|_| Process::shell(&place.world, &ours))
        .collect();
    for process in theirs.into_iter().chain(ours) {
        let output = process.end_within(std::time::Duration::from_secs(300));
        assert_eq!(code(&output), 0, "{output:?}");
    }
    let kinds = place.kinds();
    let of = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!((of("custom_event"), of("x")), (4 * times, 8 * times));
    assert_eq!(kinds.len(), 12 * times);
    assert!(!place.path("ledger.lock").exists());
    assert_eq!(
        place.json(&["verify", "p"])["findings"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn a_lock_that_another_program_made_is_respected_told_with_its_age_and_removed_only_when_asked() {
    let place = Place::new();
    place.done(&["append", "p", X]);
    let lock = place.path("ledger.lock");
    let make: [(&str, &dyn Fn()); 4] = [
        ("a directory", &|| fs::create_dir(&lock).unwrap()),
        ("an empty file", &|| fs::write(&lock, "").unwrap()),
        ("held by agent-7", &|| {
            let record = "{\"agent_id\":\"agent-7\",\"acquired_at\":\"2024-01-15T10:30:00Z\"}\n";
            fs::write(&lock, record).unwrap();
        }),
        ("another program", &|| fs::write(&lock, "7\n").unwrap()),
    ];
    let mut kept = 0;
    for (what, make) in make {
        make();
        let said = place.refused(75, &["append", "p", "--wait", "50ms", X]);
        assert!(said.contains(what), "{what}: {said}");
        assert!(said.contains("timeout waiting for lock"), "{said}");
        place.refused(75, &["claim", "p", "1", "--no-wait"]);
        let young = place.call(&["verify", "p", "--repair", "--yes"]);
        assert_eq!(code(&young), 0, "{young:?}");
        assert!(lock.exists(), "{what}: it is not 30 s old");
        age(&lock);
        assert_eq!(code(&place.call(&["verify", "p"])), 65);
        assert!(lock.exists(), "{what}: nothing is repaired unasked");
        assert_eq!(code(&place.call(&["verify", "p", "--repair"])), 65);
        assert!(lock.exists(), "{what}: a person is to be sure");
        let repaired = place.call(&["verify", "p", "--repair", "--yes"]);
        assert_eq!(code(&repaired), 0, "{repaired:?}");
        assert!(text(&repaired.stdout).contains(".aside"), "{repaired:?}");
        kept += 1;
        let aside = place
            .names()
            .into_iter()
            .filter(|name| name.ends_with(".aside"))
            .count();
        assert_eq!(aside, kept, "{what}: it is kept");
        place.done(&["append", "p", "--no-wait", X]);
    }
}

/// Makes a file look as if it was made 31 s ago.
fn age(path: &Path) {
    let touched = Command::new("touch")
        .args(["-d", "31 seconds ago"])
        .arg(path)
        .status();
    assert!(touched.unwrap().success());
}

#[test]
fn a_lock_of_another_program_is_as_old_as_the_younger_of_its_text_and_its_file() {
    let place = Place::new();
    let lock = place.path("ledger.lock");
    let hours = tenure::Timestamp::from(std::time::SystemTime::now());
    let hours = |ago: i64| tenure::Timestamp::from_millis(hours.as_millis() - ago * 3_600_000);
    // A local time that is marked as UTC, east and west of it.
    for ago in [2, -2] {
        let record = format!(
            "{{\"agent_id\":\"agent-7\",\"acquired_at\":\"{}\"}}\n",
            hours(ago)
        );
        fs::write(&lock, record).unwrap();
        place.done(&["verify", "p", "--repair", "--yes"]);
        assert!(
            lock.exists(),
            "it was made just now, whatever its text says"
        );
        age(&lock);
        place.done(&["verify", "p", "--repair", "--yes"]);
        assert_eq!(lock.exists(), ago < 0);
    }
}

#[test]
fn a_wait_for_one_of_ours_says_that_it_was_a_timeout_waiting_for_lock() {
    let place = Place::new();
    place.done(&["append", "p", X]);
    let queue = tenure_lockfile::FileLocker::new(std::time::Duration::ZERO);
    let held = queue.lock_exclusive(&place.path(".queue.lock")).unwrap();
    let said = place.refused(75, &["append", "p", "--wait", "50ms", X]);
    assert!(said.contains("timeout waiting for lock"), "{said}");
    let output = place.call(&["append", "p", "--wait", "50ms", "--json", X]);
    let message = &crate::world::json(&output.stdout)["error"]["message"];
    let message = message.as_str().unwrap();
    assert!(message.contains("timeout waiting for lock"), "{message}");
    drop(held);
}

#[test]
fn two_processes_that_both_find_the_lock_of_a_dead_one_go_on_one_after_the_other() {
    let place = Place::new();
    place.done(&["append", "p", X]);
    for round in 0..10 {
        // What one of ours leaves that is killed while it has the lock.
        fs::hard_link(place.path(".ledger.lock.tmp"), place.path("ledger.lock")).unwrap();
        let both = [(); 2].map(|()| Process::start(&mut place.command(&["append", "p", X])));
        let mut numbers: Vec<_> = both
            .into_iter()
            .map(|one| text(&one.end().stdout).trim().parse::<usize>().unwrap())
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [2 * round + 2, 2 * round + 3]);
        assert!(!place.path("ledger.lock").exists());
    }
}

#[test]
fn the_lock_of_ours_is_private_says_who_has_it_and_keeps_strangers_out() {
    let place = Place::new();
    place.done(&["append", "p", X, "--owner", "ana"]);
    let record = fs::read_to_string(place.path(".ledger.lock.tmp")).unwrap();
    let start = "{\"agent_id\":\"ana\",\"acquired_at\":\"2";
    assert!(
        record.starts_with(start) && record.ends_with("Z\"}\n"),
        "{record}"
    );
    use std::os::unix::fs::MetadataExt;
    let mode = fs::metadata(place.path(".ledger.lock.tmp")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
    // A link meets those who create the file and those who make a directory.
    fs::hard_link(place.path(".ledger.lock.tmp"), place.path("ledger.lock")).unwrap();
    assert!(fs::File::create_new(place.path("ledger.lock")).is_err());
    assert!(fs::create_dir(place.path("ledger.lock")).is_err());
}

#[test]
fn an_event_that_ignores_the_lock_is_never_replaced() {
    let mut place = Place::new();
    // Whoever ignores the lock may go on behind a gap, after ours have moved what lay there aside.
    place.stays_broken();
    let ledger =
        tenure_ledger::Ledger::open(&place.world.path("p"), crate::world::DEADLINE).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    // A program without any lock, at the numbers that are next.
    thread::scope(|scope| {
        scope.spawn(|| {
            for sequence in 1..2000_u64 {
                let path = place.path(&format!("event-{sequence:06}.json"));
                if let Ok(mut file) = fs::File::create_new(path) {
                    std::io::Write::write_all(&mut file, b"{\"type\":\"theirs\"}\n").unwrap();
                }
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut ours = Vec::new();
        for _ in 0..30 {
            match ledger.append("{\"type\":\"ours\"}") {
                Ok(sequence) => ours.push(sequence),
                // The event of a program without a lock is met half written.
                Err(tenure::Error::Corrupt { .. }) => {}
                Err(error) => match error.fault() {
                    Some(LedgerError::SequenceMismatch {
                        expected, actual, ..
                    }) => assert!(expected < actual, "{expected} and {actual}"),
                    _ => panic!("{error}"),
                },
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for sequence in ours {
            let text =
                fs::read_to_string(place.path(&format!("event-{sequence:06}.json"))).unwrap();
            assert_eq!(text, "{\"type\":\"ours\"}\n");
        }
    });
}
