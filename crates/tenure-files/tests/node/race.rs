//! Several programs that take over one stale lock: the known race of the original.
//!
//! The tests leave out the outer lock, which keeps processes of ours apart.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::node::Node;
use crate::process::Child;
use crate::roles::acquire;
use crate::scene::Scene;
use crate::stage::{LONG, until};

/// Returns a command that holds a process up before its first call of a kind, for longer than a
/// test takes.
fn held_up_before(call: &str) -> Vec<String> {
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:delay_enter=60s:when=1");
    let options = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let words = ["strace"].into_iter().chain(options);
    words.map(str::to_owned).collect()
}

/// Waits until a process that strace started is about to make a system call.
fn until_before(strace: u32, call: libc::c_long) {
    let before = format!("{call} ");
    until("a process before its system call", || {
        tasks_under(strace).any(|task| {
            let now = fs::read_to_string(format!("/proc/{task}/syscall"));
            now.is_ok_and(|now| now.starts_with(&before))
        })
    });
}

/// Returns the threads of the processes that a process started.
fn tasks_under(parent: u32) -> impl Iterator<Item = String> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children: Vec<String> = children
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(str::to_owned)
        .collect();
    children.into_iter().flat_map(|child| {
        let tasks = fs::read_dir(format!("/proc/{child}/task"));
        let tasks = tasks.into_iter().flatten().map_while(Result::ok);
        tasks
            .map(move |task| format!("{child}/task/{}", task.file_name().display()))
            .collect::<Vec<_>>()
    })
}

/// Ends strace alone, so that the process it held up goes on.
fn let_go(strace: u32) {
    let ended = Command::new("kill")
        .args(["-KILL", &strace.to_string()])
        .status();
    assert!(ended.unwrap().success());
}

#[test]
fn of_two_that_take_over_one_stale_lock_exactly_one_wins() {
    let scene = Scene::new();
    let mut rivals = [(); 2].map(|()| Child::start("puppet", &[]));
    // The winner needs 100 ms to be sure. On a busy machine its lock may be moved away by mistake
    // and back for longer than that, and then it needs time to try again.
    let enough = Duration::from_millis(150);
    let mut wait = enough;
    let mut rounds = 0;
    while rounds < 50 {
        scene.leave_stale();
        for rival in &mut rivals {
            rival.tell(acquire(wait, &scene.document()));
        }
        let answers = rivals.each_mut().map(Child::answer);
        let winner = match [answers[0].as_str(), answers[1].as_str()] {
            ["held", "busy"] => &mut rivals[0],
            ["busy", "held"] => &mut rivals[1],
            ["busy", "busy"] if wait < LONG / 4 => {
                wait *= 4;
                let _ = fs::remove_dir(scene.lock_path());
                continue;
            }
            _ => panic!("{answers:?}"),
        };
        (rounds, wait) = (rounds + 1, enough);
        assert_eq!(winner.ask("verify"), "held");
        assert_eq!(winner.ask("release"), "released");
        assert_eq!(scene.neighbours(), [""; 0]);
    }
}

/// Starts a process of ours that has looked at the lock and is about to rename something.
fn about_to_rename(scene: &Scene) -> Child {
    let command = held_up_before("renameat2");
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut slow = Child::start_under(&command, "puppet", &[]);
    slow.tell(acquire(Duration::from_millis(300), &scene.document()));
    until_before(slow.id(), libc::SYS_renameat2);
    slow
}

#[test]
fn a_fresh_lock_that_was_moved_by_mistake_is_put_back() {
    let scene = Scene::new();
    scene.leave_stale();
    let mut slow = about_to_rename(&scene);
    let lock = scene.acquire().unwrap();
    let ours = scene.lock();
    let_go(slow.id());
    assert_eq!(slow.answer(), "busy");
    assert_eq!(scene.lock(), ours);
    lock.check().unwrap();
    assert_eq!(scene.neighbours(), ["data.json.lock"]);
    lock.release().unwrap();
}

#[test]
fn a_lock_that_was_made_after_the_look_is_not_replaced() {
    let scene = Scene::new();
    let mut slow = about_to_rename(&scene);
    let mut node = Node::hold(&scene.document());
    assert_eq!(node.answer(), "held");
    let theirs = scene.lock().unwrap().0;
    let_go(slow.id());
    assert_eq!(slow.answer(), "busy");
    assert_eq!(scene.lock().unwrap().0, theirs);
    assert_eq!(scene.neighbours(), ["data.json.lock"]);
    assert_eq!(node.release(), "released");
}

#[test]
fn a_lock_that_node_removes_after_a_take_over_of_ours_does_not_count_as_held() {
    until("a Node that takes what it removed", node_removes_ours);
}

/// Makes Node remove a lock of ours. Returns false if ours tried again before Node had made its
/// own.
fn node_removes_ours() -> bool {
    let scene = Scene::new();
    scene.leave_stale();
    // Node has seen the stale lock, and is about to remove the directory at its path.
    let command = held_up_before("rmdir");
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut node = Node::hold_under(&command, &scene.document());
    until_before(node.id(), libc::SYS_rmdir);
    // An inode number may be used again, but together with the time it identifies a lock.
    let stale = scene.lock();
    let mut ours = Child::start("puppet", &[]);
    ours.tell(acquire(Duration::from_millis(500), &scene.document()));
    let mut placed = None;
    until("our lock", || {
        placed = scene.lock();
        placed.is_some() && placed != stale
    });
    let (_, made) = placed.unwrap();
    let_go(node.id());
    until("the end of our lock", || scene.lock() != placed);
    let lasted = made.elapsed().unwrap();
    if node.answer() == "busy" {
        return false;
    }
    let theirs = scene.lock().unwrap().0;
    if ours.answer() == "held" {
        // On a busy machine Node may come after ours has settled; only a look tells of that.
        assert!(
            lasted > Duration::from_millis(100),
            "it lasted only {lasted:?}"
        );
        assert_eq!(ours.ask("verify"), "lost");
    }
    assert_eq!(scene.lock().unwrap().0, theirs);
    assert_eq!(node.answer_within(Duration::ZERO), None);
    true
}
