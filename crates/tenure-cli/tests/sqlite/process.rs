//! Commands in the background, and short questions to the store.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{DEADLINE, World, code, holds_within, text, until};

/// Prints the token of the lock that surrounds it.
pub const TELL: [&str; 4] = ["--", "sh", "-c", "echo $TENURE_TOKEN"];

/// A process in the background, which is killed if the test ends before it.
pub struct Process {
    child: Option<Child>,
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self {
            child: Some(command.spawn().unwrap()),
        }
    }

    /// Starts `tenure ARGUMENTS`.
    pub fn tenure<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::start(world.tenure().args(arguments))
    }

    /// Starts a `tenure run` that waits in line for a resource, as an owner of that name, and then
    /// prints its token.
    pub fn in_line(world: &World, resource: &str, owner: &str) -> Self {
        let run = ["run", "--wait", "60s", "--owner", owner, resource];
        let process = Self::tenure(world, run.into_iter().chain(TELL));
        until_in_line(world, owner);
        process
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn is_over(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub fn end(self) -> Output {
        self.end_within(DEADLINE)
    }

    #[track_caller]
    pub fn end_within(mut self, limit: Duration) -> Output {
        assert!(
            holds_within(limit, || self.is_over()),
            "it does not end within {limit:?}"
        );
        self.child.take().unwrap().wait_with_output().unwrap()
    }

    /// Waits for the end of the process, which must be good, and returns the token that it printed.
    #[track_caller]
    pub fn token(self) -> u64 {
        self.token_within(DEADLINE)
    }

    #[track_caller]
    pub fn token_within(self, limit: Duration) -> u64 {
        token(&self.end_within(limit))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[track_caller]
pub fn token(output: &Output) -> u64 {
    assert_eq!(code(output), 0, "{output:?}");
    text(&output.stdout).trim().parse().unwrap()
}

/// Takes a lock, which must be free, gives it back, and returns its token.
#[track_caller]
pub fn take(world: &World, resource: &str) -> u64 {
    let run = ["run", "--no-wait", resource];
    token(&world.call(run.into_iter().chain(TELL)))
}

/// Waits until an owner is in line.
#[track_caller]
pub fn until_in_line(world: &World, owner: &str) {
    until(&format!("{owner} is in line"), || {
        waiting(world).iter().any(|waiter| waiter["owner"] == owner)
    });
}

pub fn held(world: &World) -> Vec<Value> {
    world.json(["ls"])["held"].as_array().unwrap().clone()
}

pub fn waiting(world: &World) -> Vec<Value> {
    world.json(["ls"])["waiting"].as_array().unwrap().clone()
}

/// Returns the one lease that is held.
#[track_caller]
pub fn the_lease(world: &World) -> Value {
    let held = held(world);
    assert_eq!(held.len(), 1, "{held:?}");
    held[0].clone()
}

pub fn field(lease: &Value, name: &str) -> String {
    lease[name].as_str().unwrap().to_owned()
}

/// Asserts after the end of all processes that nothing is held or awaited, and that leftovers of
/// the dead are swept away.
#[track_caller]
pub fn assert_nothing_is_left(world: &World) {
    let listing = world.json(["ls"]);
    assert_eq!(listing["held"], Value::Array(vec![]), "{listing}");
    assert_eq!(listing["waiting"], Value::Array(vec![]), "{listing}");
    let files = |name: &str| match std::fs::read_dir(world.path(name)) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    let mut left = Vec::new();
    // A sweep removes only some of them at a time.
    let swept = holds_within(Duration::from_secs(10), || {
        assert_eq!(code(&world.call(["recover"])), 0);
        left = files("store/sessions");
        left.extend(files("store/wake"));
        left.is_empty()
    });
    assert!(swept, "left by the dead: {left:?}");
}

/// Returns the result, and the time it took.
pub fn timed<T>(done: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let result = done();
    (result, began.elapsed())
}
