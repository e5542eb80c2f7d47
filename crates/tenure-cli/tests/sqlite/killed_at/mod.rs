//! SIGKILL at every system call.
//!
//! A command is traced once, to list the calls it makes. Then it is made anew for each of those
//! calls, and killed instead of making it. After each kill fresh commands look at what is left: one
//! writer at most, no lease that cannot be ended, every waiter served, tokens increasing, the
//! database whole.
//!
//! All calls that write, lock, make or remove are taken, from the first one on the store. If a test
//! has no time for so many, it takes every n-th, and says so. With `TENURE_TEST_EVERY_CALL` set,
//! none is left out.

mod acquire;
mod recover;
mod release;
mod renew;
mod run;
mod upgrade;
mod wait;

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use tenure_testkit::tell;

use crate::world::{World, text};

const CALLS: &str = "pwrite64,write,fcntl,flock,open,openat,unlink,unlinkat,rename,fsync,\
                     fdatasync,mkdir,mkdirat,mknod,mknodat,ftruncate,fallocate";

/// The n-th system call of a kind that a command makes.
#[derive(Debug, Clone)]
pub struct Point {
    call: String,
    number: usize,
}

/// Returns `tenure ARGUMENTS`, traced into a file.
pub fn traced(world: &World, arguments: &[&str]) -> Command {
    let trace = world.path("trace").display().to_string();
    let filter = format!("trace={CALLS}");
    strace(world, &["-o", &trace, "-e", &filter], arguments)
}

/// Returns `tenure ARGUMENTS`, killed instead of making a call.
pub fn killed(world: &World, point: &Point, arguments: &[&str]) -> Command {
    let Point { call, number } = point;
    let filter = format!("trace={call}");
    let inject = format!("inject={call}:signal=KILL:when={number}");
    let options = ["-o", "/dev/null", "-e", &filter, "-e", &inject];
    strace(world, &options, arguments)
}

fn strace(world: &World, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("strace");
    world.prepare(&mut command);
    command.args(["-f", "-qq"]).args(options);
    command.arg(env!("CARGO_BIN_EXE_tenure")).args(arguments);
    command
}

/// Returns the calls of the command traced last, from the first on the store; at most so many.
pub fn points(world: &World, most: usize) -> Vec<Point> {
    let trace = std::fs::read(world.path("trace")).unwrap();
    let trace = text(&trace);
    let store = world.path("store").display().to_string();
    let mut numbers = HashMap::new();
    let mut points = Vec::new();
    let mut begun = false;
    for line in trace.lines() {
        // A line reads "1234  pwrite64(13, ..." or "1234  <... fcntl resumed>".
        let after_pid = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim();
        let Some((call, _)) = after_pid.split_once('(') else {
            continue;
        };
        if !CALLS.split(',').any(|known| known == call) {
            continue;
        }
        let number = numbers.entry(call.to_owned()).or_insert(0);
        *number += 1;
        begun |= line.contains(&store);
        if begun {
            let (call, number) = (call.to_owned(), *number);
            points.push(Point { call, number });
        }
    }
    let all = points.len();
    assert!(all > 10, "the trace shows no work on the store: {trace}");
    let every = match std::env::var_os("TENURE_TEST_EVERY_CALL") {
        Some(_) => 1,
        None => all.div_ceil(most),
    };
    let points: Vec<_> = points.into_iter().step_by(every).collect();
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    tell(format!(
        "{test}: {} of {all} system calls, one in {every}",
        points.len()
    ));
    points
}

/// Tells whether the command was killed. If not, it must have succeeded with fewer calls this time.
#[track_caller]
pub fn was_killed(output: &Output) -> bool {
    let by = output.status.signal().unwrap_or(0);
    match output.status.code() {
        Some(0) => false,
        // A program in between passes the signal on like this.
        Some(137) => true,
        _ if by == libc::SIGKILL => true,
        _ => panic!("neither killed nor done: {output:?}"),
    }
}

/// A count of the real kills.
pub struct Kills {
    points: usize,
    killed: usize,
}

impl Kills {
    pub fn at(points: &[Point]) -> Self {
        Self {
            points: points.len(),
            killed: 0,
        }
    }

    #[track_caller]
    pub fn count(&mut self, output: &Output) -> bool {
        let killed = was_killed(output);
        self.killed += usize::from(killed);
        killed
    }

    /// Asserts that most kills happened, as otherwise nothing was proved.
    #[track_caller]
    pub fn assert_real(&self) {
        let Self { points, killed } = self;
        println!("killed {killed} times at {points} calls");
        assert!(*killed * 2 > *points, "{killed} of {points}");
    }
}
