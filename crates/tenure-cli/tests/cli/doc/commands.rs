//! Commands on the documents of a test, and an update that takes its time.

use std::io::{Read, Write};
use std::process::{Child, Output, Stdio};

use crate::world::{World, signal, until_exists};

/// Makes a file, without any lock.
pub fn put(world: &World, name: &str, text: &str) {
    std::fs::write(world.path(name), text).unwrap();
}

/// Returns the content of a file.
pub fn get(world: &World, name: &str) -> String {
    std::fs::read_to_string(world.path(name)).unwrap()
}

/// Runs `tenure doc ARGUMENTS` to its end.
pub fn doc<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> Output {
    world.tenure().arg("doc").args(arguments).output().unwrap()
}

/// Runs `tenure doc ARGUMENTS` to its end, with this standard input.
pub fn doc_with<'a>(
    world: &World,
    arguments: impl IntoIterator<Item = &'a str>,
    input: &[u8],
) -> Output {
    let mut command = world.tenure();
    command.arg("doc").args(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command may stop reading before the end.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// A `doc update` whose command runs until it is told to go on.
pub struct Worker {
    pub update: Child,
    /// The process id of the command under `update`.
    pub command: u32,
}

impl Worker {
    /// Starts an update that adds `"worked":true` to a document.
    pub fn on(world: &World, file: &str) -> Self {
        let script = "echo $$ > pid.new; mv pid.new pid; while [ ! -e go ]; do sleep 0.01; done; \
                      exec jq -c '.worked = true'";
        let mut command = world.tenure();
        command.args([
            "doc", "update", file, "--owner", "bob@desk", "--", "sh", "-c", script,
        ]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let update = command.spawn().unwrap();
        until_exists(&world.path("pid"));
        let command = get(world, "pid").trim().parse().unwrap();
        Self { update, command }
    }

    /// Lets the command end by itself.
    pub fn let_go(&self, world: &World) {
        put(world, "go", "");
    }

    /// Returns the exit code and the messages of `update`.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.update
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (self.update.wait().unwrap().code(), said)
    }
}

impl Drop for Worker {
    /// Kills a worker that was not let go, which would go on after the test.
    fn drop(&mut self) {
        if let Ok(None) = self.update.try_wait() {
            signal(self.command, libc::SIGKILL);
            let _ = self.update.kill();
            let _ = self.update.wait();
        }
    }
}
