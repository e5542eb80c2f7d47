//! A publisher under strace: its system calls, and a stop after one of them.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command, Output, Stdio};

use crate::site::Site;
use crate::world::{code, signal, text, until};

/// The system calls that change something.
pub const CALLS: &str = "write,pwrite64,writev,flock,open,openat,creat,close,unlink,unlinkat,rename,\
                         renameat,renameat2,link,linkat,symlink,symlinkat,mkdir,mkdirat,rmdir,fsync,\
                         fdatasync,ftruncate,fchmod,fchmodat,chmod,exit_group";

/// The n-th system call of a kind, and its line in the trace.
#[derive(Debug, Clone)]
pub struct Point {
    pub call: String,
    pub number: usize,
    pub line: String,
}

pub fn strace(site: &Site, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("strace");
    site.world.prepare(&mut command);
    command
        .args(["-qq", "-s", "300", "-o"])
        .arg(site.path("trace"));
    command
        .args(options)
        .arg(env!("CARGO_BIN_EXE_tenure"))
        .args(arguments);
    command
}

/// Returns all calls of a command that must succeed. One thread does its work on files and
/// transactions, and only that thread is traced.
pub fn points(site: &Site, arguments: &[&str]) -> Vec<Point> {
    points_of(CALLS, site, arguments)
}

fn points_of(calls: &str, site: &Site, arguments: &[&str]) -> Vec<Point> {
    let output = strace(site, &["-e", &format!("trace={calls}")], arguments)
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let trace = text(&fs::read(site.path("trace")).unwrap());
    let mut numbers = HashMap::new();
    let mut points = Vec::new();
    for line in trace.lines() {
        if let Some((call, _)) = line.split_once('(') {
            let number = numbers.entry(call.to_owned()).or_insert(0);
            *number += 1;
            points.push(Point {
                call: call.to_owned(),
                number: *number,
                line: line.to_owned(),
            });
        }
    }
    points
}

/// The calls of a publish over another directory, including its looks at names. The number of calls
/// of each kind is equal for all targets, except for `write`, which also wakes threads.
pub struct Trace(Vec<Point>);

impl Trace {
    pub fn of(site: &Site) -> Self {
        let target = site.path("srv/traced").display().to_string();
        site.published("old", &target);
        let source = site.source("traced");
        let calls = format!("{CALLS},statx");
        Self(points_of(&calls, site, &["publish", &source, &target]))
    }

    /// Returns the first call of this kind whose line has this part.
    #[track_caller]
    pub fn first(&self, call: &str, part: &str) -> Point {
        let is_it = |point: &&Point| point.call == call && point.line.contains(part);
        self.found(call, self.0.iter().find(is_it))
    }

    /// Returns the last call of this kind before the rename: the steps 1 to 5.
    #[track_caller]
    pub fn last_before_rename(&self, call: &str) -> Point {
        let (before, _) = self.0.split_at(self.rename());
        let is_it = |point: &&Point| point.call == call;
        self.found(call, before.iter().rev().find(is_it))
    }

    /// Returns the first call of this kind after the rename.
    #[track_caller]
    pub fn first_after_rename(&self, call: &str) -> Point {
        let (_, after) = self.0.split_at(self.rename());
        let is_it = |point: &&Point| point.call == call;
        self.found(call, after.iter().find(is_it))
    }

    fn rename(&self) -> usize {
        let is_it = |point: &Point| point.line.contains("RENAME_EXCHANGE");
        self.0.iter().position(is_it).unwrap()
    }

    #[track_caller]
    fn found(&self, call: &str, found: Option<&Point>) -> Point {
        let found = found.unwrap_or_else(|| panic!("no such {call}: {:#?}", self.0));
        found.clone()
    }
}

/// A command that stands still. Unless it is let go on, it is killed when this is dropped.
pub struct Stopped {
    tracer: Option<Child>,
    pid: u32,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(tracer) = self.tracer.take() {
            self.send(libc::SIGKILL);
            tracer.wait_with_output().unwrap();
        }
    }
}

impl Stopped {
    /// Starts a command, and returns when it stands still after that call.
    pub fn at(site: &Site, point: &Point, arguments: &[&str]) -> Self {
        let _ = fs::remove_file(site.path("trace"));
        let filter = format!("trace={}", point.call);
        let inject = format!("inject={}:signal=STOP:when={}", point.call, point.number);
        let mut command = strace(site, &["-e", &filter, "-e", &inject], arguments);
        let tracer = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("it stands still", || {
            let trace = fs::read(site.path("trace")).unwrap_or_default();
            text(&trace).contains("stopped by SIGSTOP")
        });
        let children = format!("/proc/{0}/task/{0}/children", tracer.id());
        let children = fs::read_to_string(children).unwrap();
        let pid = children.split_whitespace().next().unwrap().parse().unwrap();
        let tracer = Some(tracer);
        Self { tracer, pid }
    }

    /// Lets the command go on to its end.
    pub fn go_on(mut self) -> Output {
        self.send(libc::SIGCONT);
        let tracer = self.tracer.take().unwrap();
        tracer.wait_with_output().unwrap()
    }

    pub fn send(&self, number: i32) {
        signal(self.pid, number);
    }
}
