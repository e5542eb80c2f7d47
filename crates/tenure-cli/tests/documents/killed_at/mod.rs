//! SIGKILL at every system call that changes something; SIGSTOP at one of them.
//!
//! A command is traced once, to list the calls it makes. Then it is made anew for each of those
//! calls, on documents of its own, and killed instead of making it. A kill at a call that only
//! looks leaves nothing but what a kill at the next call leaves, so such calls are left out. Only
//! the thread that works is traced: strace counts calls by thread.

mod fenced;
mod one;
pub mod several;

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::site::Process;
use crate::world::{World, code, signal, text, until};

const CALLS: &str = "write,pwrite64,writev,flock,open,openat,creat,close,unlink,unlinkat,rename,\
                     renameat,renameat2,link,linkat,symlink,mkdir,mkdirat,rmdir,fsync,fdatasync,\
                     sync_file_range,ftruncate,fallocate,fchmod,fchmodat,fchown,fchownat,utimensat,\
                     clone,clone3,vfork,exit_group";

/// The n-th system call of a kind that a command makes, and its line in the trace.
#[derive(Debug, Clone)]
pub struct Point {
    call: String,
    number: usize,
    pub line: String,
}

/// Returns `tenure ARGUMENTS` in a directory, traced into a file.
fn traced(world: &World, directory: &str, arguments: &[&str]) -> Command {
    let trace = world.path("trace").display().to_string();
    let filter = format!("trace={CALLS}");
    strace(world, directory, &["-o", &trace, "-e", &filter], arguments)
}

/// Returns `tenure ARGUMENTS` in a directory, with a signal at a call. SIGKILL comes instead of the
/// call, SIGSTOP after it.
fn signalled(
    world: &World,
    directory: &str,
    (point, signal): (&Point, &str),
    arguments: &[&str],
) -> Command {
    let Point { call, number, .. } = point;
    let filter = format!("trace={call}");
    let inject = format!("inject={call}:signal={signal}:when={number}");
    let trace = world.path("trace").display().to_string();
    let options = ["-o", &trace, "-e", &filter, "-e", &inject];
    strace(world, directory, &options, arguments)
}

/// Returns `tenure ARGUMENTS` in a directory, under strace with these options.
pub fn strace(world: &World, directory: &str, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("strace");
    world.prepare(&mut command);
    command.current_dir(world.path(directory));
    command.args(["-qq", "-s", "300"]).args(options);
    command.arg(env!("CARGO_BIN_EXE_tenure")).args(arguments);
    command
}

/// A command that is killed at its calls, from the first that names one of the documents' files.
pub struct Victim<'a> {
    pub world: &'a World,
    /// Makes the documents as they are before the command, in a directory.
    pub before: fn(&World, &str),
    pub arguments: &'a [&'a str],
}

impl Victim<'_> {
    /// Returns the calls of the command, which must succeed.
    #[track_caller]
    pub fn points(&self) -> Vec<Point> {
        let directory = self.fresh("traced");
        let output = traced(self.world, &directory, self.arguments).output();
        let output = output.unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        let trace = text(&fs::read(self.world.path("trace")).unwrap());
        let points = points(&trace);
        assert!(points.len() > 15, "the trace shows no work: {trace}");
        points
    }

    /// Kills the command instead of that call, in a directory of its own. Returns the directory,
    /// and whether the command was acknowledged.
    #[track_caller]
    pub fn kill(&self, number: usize, point: &Point) -> (String, bool) {
        let directory = self.fresh(&format!("killed-{number}"));
        let mut command = signalled(self.world, &directory, (point, "KILL"), self.arguments);
        let output = Process::start(&mut command).end();
        assert!(was_killed(&output), "{point:?}: {output:?}");
        (directory, !output.stdout.is_empty())
    }

    /// Stops the command after that call, in a directory of its own.
    #[track_caller]
    pub fn stop(&self, number: usize, point: &Point) -> (String, Stopped) {
        let directory = self.fresh(&format!("stopped-{number}"));
        let mut command = signalled(self.world, &directory, (point, "STOP"), self.arguments);
        let tracer = Process::start(&mut command);
        let trace = self.world.path("trace");
        until("it stands still", || {
            let trace = fs::read(&trace).unwrap_or_default();
            text(&trace).contains("stopped by SIGSTOP")
        });
        (directory, Stopped { tracer })
    }

    fn fresh(&self, name: &str) -> String {
        fs::create_dir(self.world.path(name)).unwrap();
        (self.before)(self.world, name);
        name.to_owned()
    }
}

fn points(trace: &str) -> Vec<Point> {
    let mut numbers = HashMap::new();
    let mut points = Vec::new();
    let mut begun = false;
    for line in trace.lines() {
        let Some((call, _)) = line.split_once('(') else {
            continue;
        };
        let number = numbers.entry(call.to_owned()).or_insert(0);
        *number += 1;
        // The first file that the command makes is a lock file.
        begun |= line.contains(".json.lock");
        if begun {
            points.push(Point {
                call: call.to_owned(),
                number: *number,
                line: line.to_owned(),
            });
        }
    }
    points
}

fn was_killed(output: &Output) -> bool {
    output.status.signal() == Some(libc::SIGKILL)
}

/// A command that stands still.
pub struct Stopped {
    tracer: Process,
}

impl Stopped {
    /// Lets the command go on to its end, which must be good.
    #[track_caller]
    pub fn go_on(self) {
        let tracer = self.tracer.id();
        let children = fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children"));
        let traced = children.unwrap().trim().parse().unwrap();
        signal(traced, libc::SIGCONT);
        let output = self.tracer.end();
        assert_eq!(code(&output), 0, "{output:?}");
    }
}

/// Returns the path of a file in one of the directories.
pub fn at(world: &World, directory: &str, name: &str) -> PathBuf {
    world.path(directory).join(name)
}
