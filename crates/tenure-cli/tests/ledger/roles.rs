//! The roles of a child process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tenure_ledger::Ledger;
use tenure_ledger::Node;
use tenure_lockfile::FileCaller;

use crate::campaign;
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
        ("append", [directory, name, times]) => append(directory.as_ref(), name, times),
        ("claim", [directory, name, rounds]) => claim(directory.as_ref(), name, rounds),
        ("campaign", [directory, name, seed]) => campaign::work(directory.as_ref(), name, seed),
        _ => panic!("no such role: {role}"),
    }
}

fn open(directory: &Path) -> Ledger {
    Ledger::open(directory, Duration::from_secs(120)).unwrap()
}

/// Appends events with a name and a number, and says the sequence of each.
fn append(directory: &Path, name: &str, times: &str) {
    let ledger = open(directory);
    for number in 0..times.parse().unwrap() {
        let event = format!("{{\"type\":\"x\",\"from\":\"{name}\",\"number\":{number}}}");
        let number: u32 = number;
        say(format!("{number} {}", ledger.append(&event).unwrap()));
    }
}

/// Claims one of the nodes again and again, in an order that depends on the name. While it has a
/// node it makes a file that must not exist yet.
fn claim(directory: &Path, name: &str, rounds: &str) {
    let asker = |name: &str| {
        let owner = tenure::Owner::parse(name).unwrap();
        tenure::SessionOptions::new(owner).asker()
    };
    let wait = Duration::from_secs(120);
    let ledger = Ledger::open(directory, wait).unwrap();
    let ledger = ledger.for_caller(&FileCaller::new(asker(name), wait));
    let mut random = name.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |seed, byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut won = 0;
    for _ in 0..rounds.parse::<u32>().unwrap() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let node: Node = format!("1.{}", random % 3).parse().unwrap();
        let Ok(claim) = ledger.claim(&node, None) else {
            continue;
        };
        won += 1;
        let mark = directory.join(format!("mark-{node}"));
        fs::File::create_new(&mark).expect("two have won the same node");
        let event = format!("{{\"type\":\"worked\",\"owner\":\"{name}\"}}");
        let token = format!("{node}#{}", claim.token).parse().unwrap();
        let terms = tenure_ledger::AppendTerms {
            claim: Some(token),
            ..Default::default()
        };
        ledger.append_on(&event, terms).unwrap();
        fs::remove_file(&mark).unwrap();
        ledger.release(&node).unwrap();
    }
    say(won);
}
