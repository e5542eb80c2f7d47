//! The system calls of a command, and the command killed at one of them.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use crate::site::Process;
use crate::world::{World, code, text};

const CALLS: &str = "write,pwrite64,writev,flock,open,openat,creat,close,unlink,unlinkat,rename,\
                     renameat,renameat2,link,linkat,mkdir,mkdirat,rmdir,fsync,fdatasync,ftruncate,\
                     exit_group";

/// The n-th system call of a kind that a command makes, and its line in the trace.
#[derive(Debug, Clone)]
pub struct Point {
    pub call: String,
    pub number: usize,
    pub line: String,
}

/// Returns `tenure ARGUMENTS` under strace.
pub fn strace(world: &World, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("strace");
    world.prepare(&mut command);
    command
        .args(["-qq", "-s", "300", "-o"])
        .arg(world.path("trace"));
    command.args(options).arg(env!("CARGO_BIN_EXE_tenure"));
    command.args(arguments);
    command
}

/// Returns the calls of a command that must succeed, from the first that names this path on.
pub fn points(world: &World, arguments: &[&str], path: &str) -> Vec<Point> {
    let output = strace(world, &["-e", &format!("trace={CALLS}")], arguments).output();
    let output = output.unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let trace = text(&fs::read(world.path("trace")).unwrap());
    let mut numbers = HashMap::new();
    let mut points = Vec::new();
    for line in trace.lines() {
        let Some((call, _)) = line.split_once('(') else {
            continue;
        };
        let number = numbers.entry(call.to_owned()).or_insert(0);
        *number += 1;
        if !points.is_empty() || line.contains(path) {
            points.push(Point {
                call: call.to_owned(),
                number: *number,
                line: line.to_owned(),
            });
        }
    }
    assert!(points.len() > 15, "the trace shows no work: {trace}");
    points
}

/// Starts the command anew, and kills it instead of making this call.
pub fn kill_at(world: &World, point: &Point, arguments: &[&str]) -> Output {
    let filter = format!("trace={}", point.call);
    let inject = format!("inject={}:signal=KILL:when={}", point.call, point.number);
    let options = ["-e", filter.as_str(), "-e", inject.as_str()];
    let output = Process::start(&mut strace(world, &options, arguments)).end();
    let signal = output.status.signal();
    assert_eq!(signal, Some(libc::SIGKILL), "{point:?}: {output:?}");
    output
}
