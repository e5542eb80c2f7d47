//! A copy that takes long: the line that people see, and the signal that ends it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use crate::site::Site;
use crate::stopped::strace;
use crate::terminal::Terminal;
use crate::world::{code, signal, text, until};

/// The first sync of a file takes this long.
const SLOW: [&str; 4] = [
    "-e",
    "trace=fchmod",
    "-e",
    "inject=fchmod:delay_enter=2000000:when=1",
];

#[test]
fn on_a_terminal_files_and_bytes_are_shown() {
    let site = Site::sqlite();
    let source = site.source("one");
    let mut terminal = Terminal::open(&site.world);
    let slow = SLOW.join(" ");
    terminal.press(&format!(
        "strace -qq -o trace {slow} \"$TENURE\" publish {source} {}\n",
        site.target()
    ));
    terminal.expect("tenure: copied 0 files, 0.0 kB");
    terminal.expect("published 2 files");
}

#[test]
fn a_signal_ends_the_copy_and_leaves_nothing() {
    let site = Site::sqlite();
    let (source, target) = (site.source("one"), site.target());
    let mut command = strace(&site, &SLOW, &["publish", &source, &target]);
    let tracer = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("it copies", || {
        let left = site.left_in_tmp();
        left.len() == 1 && site.path("srv/tmp").join(&left[0]).join("a.txt").exists()
    });
    let children = format!("/proc/{0}/task/{0}/children", tracer.id());
    let children = fs::read_to_string(children).unwrap();
    signal(children.trim().parse().unwrap(), libc::SIGTERM);
    let output = tracer.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("interrupted while copying to file:"),
        "{said}"
    );
    assert_eq!(
        (site.content(&target), site.left_in_tmp()),
        (None, Vec::new())
    );
    assert_eq!(site.states(&target), ["aborted"]);
}

#[test]
fn a_signal_ends_the_wait_for_another_publisher_and_leaves_nothing() {
    let site = Site::sqlite();
    let target = site.target();
    site.published("old", &target);
    let lock = fs::File::options()
        .read(true)
        .write(true)
        .open(site.path("srv/.tiles.lock"))
        .unwrap();
    lock.lock().unwrap();
    let mut command = site.world.tenure();
    command.args(["publish", &site.source("new"), &target, "--wait", "60s"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let publisher = command.spawn().unwrap();
    let inode = fs::metadata(site.path("srv/.tiles.lock")).unwrap().ino();
    until("it waits in the kernel", || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let waits = |line: &str| line.contains("-> ") && line.contains(&format!(":{inode} "));
        locks.lines().any(waits)
    });
    signal(publisher.id(), libc::SIGINT);
    let output = publisher.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{output:?}");
    assert_eq!(site.content(&target).as_deref(), Some("old"));
    assert_eq!(site.left_in_tmp(), [""; 0]);
    assert_eq!(site.states(&target), ["committed", "aborted"]);
}
