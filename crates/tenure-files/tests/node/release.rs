//! Leftovers of a released lock, and forked children.

use std::time::{Duration, Instant};

use crate::node::Node;
use crate::process::alone;
use crate::scene::Scene;
use crate::stage::ProcessResources;

#[test]
fn nothing_is_left_of_a_released_lock_and_its_thread_ends_at_once() {
    alone(|| {
        let scene = Scene::new();
        scene.acquire().unwrap().release().unwrap();
        let before = ProcessResources::count();
        let mut quickest = Duration::MAX;
        for round in 0..20 {
            let started = Instant::now();
            let lock = scene.acquire().unwrap();
            match round % 2 {
                0 => lock.release().unwrap(),
                _ => drop(lock),
            }
            assert_eq!(scene.neighbours(), [""; 0]);
            before.until_no_more_than_before();
            quickest = quickest.min(started.elapsed());
        }
        // A thread that slept on until the next refresh would exceed this every time.
        assert!(quickest < Duration::from_secs(4), "{quickest:?}");
    });
}

#[test]
fn a_lock_dropped_in_a_forked_child_stays_the_parents() {
    alone(|| {
        let scene = Scene::new();
        let mut lock = Some(scene.acquire().unwrap());
        // SAFETY: the child drops a lock, which touches nothing there, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(lock.take());
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(0) }
        }
        let mut status = 0;
        // SAFETY: `status` is valid for the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        let lock = lock.unwrap();
        lock.check().unwrap();
        let mut node = Node::hold(&scene.document());
        assert_eq!(node.answer(), "busy");
        lock.release().unwrap();
        assert_eq!(node.answer(), "held");
    });
}
