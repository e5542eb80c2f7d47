//! The roles of a child process.

use crate::documents;
use crate::process::{Child, hear, role, say};

/// The test that a child process runs. See [`a_child_process_plays_its_role`].
pub const ENTRY: &str = "roles::a_child_process_plays_its_role";

/// In a child this test is the way into its role. In the test run it has no role: it starts such a
/// child, and hears its answer.
#[test]
fn a_child_process_plays_its_role() {
    let Some((role, arguments)) = role() else {
        let mut child = Child::start("echo", &[]);
        assert_eq!(child.ask("hello"), "hello");
        return child.finish();
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match role.as_str() {
        "echo" => {
            while let Some(line) = hear() {
                say(line);
            }
        }
        "count" => documents::play(&arguments),
        "read" => documents::play_reader(&arguments),
        "write" => documents::play_writer(&arguments),
        "commit" => documents::play_commit(&arguments),
        _ => panic!("no such role: {role}"),
    }
}
