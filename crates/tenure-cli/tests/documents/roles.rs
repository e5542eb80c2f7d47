//! The roles of a child process.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tenure_files::Error;
use tenure_files::document::Documents;

use crate::process::{Child, hear, role, say};

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
    match role.as_str() {
        "echo" => say(&arguments[0]),
        "raise" => raise(Path::new(&arguments[0])),
        _ => panic!("no such role: {role}"),
    }
}

/// Raises the number in `one.json`, and the numbers in `left.json` and `right.json` as one
/// transaction, again and again, and says `one N` and `both N` after each.
fn raise(directory: &Path) {
    let documents = Documents::new(Duration::from_secs(30));
    let [one, left, right] =
        ["one.json", "left.json", "right.json"].map(|name| directory.join(name));
    // The child ends with the test if the test does not kill it.
    std::thread::spawn(|| {
        while hear().is_some() {}
        std::process::exit(1);
    });
    loop {
        let n = documents.transaction::<Value, _, Error>(&one, |value| Ok(next(value)));
        say(format!("one {}", n.unwrap()));
        let both = documents.transaction_many::<Value, _, Error>(&[&left, &right], |values| {
            let numbers: Vec<u64> = values.iter_mut().map(next).collect();
            assert_eq!(numbers[0], numbers[1], "they change together");
            Ok(numbers[0])
        });
        say(format!("both {}", both.unwrap()));
    }
}

fn next(value: &mut Value) -> u64 {
    let n = value["n"].as_u64().unwrap() + 1;
    value["n"] = n.into();
    n
}
