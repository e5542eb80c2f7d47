//! The roles of a child process.

use crate::process::{Child, heard, role, runtime, say};
use crate::{machine, worker};

/// The test that a child process runs.
pub const ENTRY: &str = "roles::a_child_process_plays_its_role";

/// In a child this test is the way into its role. In the test run it has no role: it starts such a
/// child, and hears its answer.
#[test]
fn a_child_process_plays_its_role() {
    let Some((role, arguments)) = role() else {
        let mut child = Child::start("echo", &"a b");
        child.tell(&"hello");
        let answer: (u32, String, String) = child.answer();
        assert_eq!(answer, (child.id(), "hello".into(), "\"a b\"".into()));
        return child.finish();
    };
    match role.as_str() {
        "echo" => runtime().block_on(async {
            let mut heard = heard::<String>();
            while let Some(word) = heard.recv().await {
                say(&(std::process::id(), word, &arguments));
            }
        }),
        "machine" => machine::play(&serde_json::from_str(&arguments).unwrap()),
        "worker" => worker::play(&serde_json::from_str::<String>(&arguments).unwrap()),
        _ => panic!("no such role: {role}"),
    }
}
