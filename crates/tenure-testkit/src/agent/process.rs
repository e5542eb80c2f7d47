//! An agent in a process of its own: the test binary itself, started again.
//!
//! The child runs one test, `TEST`, which the macro `agent!` puts at the root of the binary. It
//! plays the agent only if `STORE` is in its environment, and speaks JSON lines over stdin and
//! stdout. It ends with its input, so no child outlives its parent.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tenure::{Keeper, Mode};
use tokio::sync::mpsc::unbounded_channel;

use super::Agent;
use super::gate::Gate;
use super::obey::{Tell, obey};
use super::words::{Answer, Order, Reply};

/// The test that a child runs.
const TEST: &str = "an_agent_obeys_and_ends_with_its_input";
/// The address of the child's store; its presence makes a child of a test.
const STORE: &str = "TENURE_TESTKIT_AGENT";

/// Starts this test binary again, as an agent in a store.
pub fn this_test_binary(url: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", TEST, "--nocapture"])
        .env(STORE, url);
    command
}

/// The body of the test `TEST`: in a child it plays the agent; as a test it proves that a child
/// obeys, and that it ends with its input.
pub fn play_or_prove() {
    match std::env::var(STORE) {
        Ok(url) => play(&url),
        Err(_) => prove(),
    }
}

fn prove() {
    let mut agent = Agent::process(this_test_binary("memory:"), "ana");
    assert_ne!(agent.pid(), std::process::id());
    let lease = agent.take("a", Mode::Write);
    assert_eq!((lease.pid, lease.owner.as_str()), (agent.pid(), "ana"));
    assert_eq!(agent.list(), [lease]);
    agent.release("a");
    assert_eq!(agent.list(), []);
    assert!(agent.end_of_input().success());
}

fn play(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (orders, ordered) = unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lines() {
            let order: Order = serde_json::from_str(&line.unwrap()).unwrap();
            if orders.send(order).is_err() {
                return;
            }
        }
    });
    let tell: Tell = Arc::new(|reply: Reply| {
        let mut line = serde_json::to_string(&reply).unwrap();
        line.push('\n');
        let mut out = io::stdout().lock();
        // A parent that reads no more has also ended the input.
        drop(out.write_all(line.as_bytes()).and_then(|()| out.flush()));
    });
    // The harness may have begun a line of its own.
    println!();
    tell(Reply {
        id: 0,
        answer: Answer::Ready {
            pid: std::process::id(),
        },
    });
    runtime.block_on(async {
        let keeper = Keeper::open(url).await.unwrap();
        obey(keeper, ordered, tell, Arc::<Gate>::default()).await;
    });
}

/// The child and the way to it.
pub(super) struct Process {
    child: Child,
    input: Option<ChildStdin>,
}

impl Process {
    pub(super) fn start(mut command: Command) -> (Self, mpsc::Receiver<Reply>) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (answers, answered) = mpsc::channel();
        thread::spawn(move || {
            // A line that is no object comes from the test harness.
            let replies = output.lines().map_while(Result::ok);
            for line in replies.filter(|line| line.starts_with('{')) {
                // A killed process may leave half a line.
                let Ok(reply) = serde_json::from_str(&line) else {
                    return;
                };
                if answers.send(reply).is_err() {
                    return;
                }
            }
        });
        (Self { child, input }, answered)
    }

    pub(super) fn send(&mut self, order: &Order) {
        let mut line = serde_json::to_string(order).unwrap();
        line.push('\n');
        let input = self.input.as_mut().expect("its input is open");
        input.write_all(line.as_bytes()).unwrap();
    }

    /// Kills the child; when this returns, the kernel has closed all it had open.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the child; when this returns, it has stopped.
    pub(super) fn stop(&mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    pub(super) fn resume(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    pub(super) fn end_of_input(&mut self) -> std::process::ExitStatus {
        self.input = None;
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A child that has ended cannot be killed any more.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
