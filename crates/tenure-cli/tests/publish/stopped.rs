//! A publisher under strace: its system calls, and one that stands still after one of them.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command, Output, Stdio};

use crate::site::Site;
use crate::world::{code, signal, text, until};

/// The calls that change something.
pub const CALLS: &str = "write,pwrite64,writev,flock,open,openat,creat,close,unlink,unlinkat,rename,\
                         renameat,renameat2,link,linkat,symlink,symlinkat,mkdir,mkdirat,rmdir,fsync,\
                         fdatasync,ftruncate,fchmod,fchmodat,chmod,exit_group";

/// A system call: the how-many-th of its kind, and as strace shows it.
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

/// All calls of a command that must succeed. Its files and transactions are the work of one thread, which is traced.
pub fn points(site: &Site, arguments: &[&str]) -> Vec<Point> {
    let output = strace(site, &["-e", &format!("trace={CALLS}")], arguments)
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

/// A command that stands still.
pub struct Stopped {
    tracer: Child,
    pid: u32,
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
        Self { tracer, pid }
    }

    /// Lets it go on, to its end.
    pub fn go_on(self) -> Output {
        signal(self.pid, libc::SIGCONT);
        self.tracer.wait_with_output().unwrap()
    }
}
