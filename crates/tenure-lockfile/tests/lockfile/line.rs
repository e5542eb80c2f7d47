//! The number of waits in the kernel that a process makes.

use std::fs;
use std::sync::mpsc;
use std::thread;

use crate::stage::{Stage, patient, until, until_waiting, waits_in_kernel};

/// Waits until a thread of this process waits for a lock in the kernel, or for its turn.
pub fn until_waits(thread: libc::pid_t) {
    let syscall = format!("/proc/self/task/{thread}/syscall");
    until("a thread that waits", || {
        let call = fs::read_to_string(&syscall).unwrap();
        let words: Vec<_> = call.split_whitespace().collect();
        let number = |call: libc::c_long| words[0] == call.to_string();
        // A wait for a turn has a deadline, the fourth argument; a wait for a mutex has none.
        let turn = number(libc::SYS_futex) && words[4] != "0x0";
        turn || number(libc::SYS_flock) || number(libc::SYS_fcntl)
    });
}

#[test]
fn of_32_waiting_threads_one_waits_in_the_kernel() {
    let stage = Stage::new();
    let path = stage.lock();
    let locker = patient();
    let holder = patient().lock_exclusive(&path).unwrap();
    let (sender, started) = mpsc::channel();
    thread::scope(|scope| {
        for place in 0..32 {
            let (sender, locker, path) = (sender.clone(), &locker, &path);
            scope.spawn(move || {
                sender
                    .send(rustix::thread::gettid().as_raw_nonzero())
                    .unwrap();
                match place % 3 {
                    0 => drop(locker.lock_shared(path).unwrap()),
                    1 => drop(locker.lock_upgradeable(path).unwrap()),
                    _ => drop(locker.lock_exclusive(path).unwrap()),
                }
            });
        }
        let threads: Vec<_> = started.iter().take(32).collect();
        for thread in threads {
            until_waits(thread.get());
        }
        until_waiting(&path, 1);
        for _ in 0..50 {
            assert!(waits_in_kernel(&path) <= 1);
        }
        drop(holder);
    });
    assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
}
