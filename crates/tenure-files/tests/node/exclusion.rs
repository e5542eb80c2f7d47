//! One holder at a time among Node programs and ours, and hand-over both ways.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::Class;
use tenure_files::Cancel;
use tenure_files::node_lock::{NodeLock, is_fresh};

use crate::node::Node;
use crate::roles::{acquire, holder};
use crate::scene::{STALE_AFTER, Scene};
use crate::stage::{LONG, until};

#[test]
fn a_node_holder_excludes_us_and_hands_over() {
    let scene = Scene::new();
    assert!(!is_fresh(&scene.document()).unwrap());
    let mut node = Node::hold(&scene.document());
    assert_eq!(node.answer(), "held");
    assert!(is_fresh(&scene.document()).unwrap());
    scene.assert_busy();
    let mut waiting = crate::process::Child::start("puppet", &[]);
    waiting.tell(acquire(LONG, &scene.document()));
    assert_eq!(waiting.answer_within(Duration::from_millis(300)), None);
    assert_eq!(node.release(), "released");
    assert_eq!(waiting.answer(), "held");
    assert_eq!(waiting.ask("verify"), "held");
    assert_eq!(waiting.ask("release"), "released");
    assert!(!is_fresh(&scene.document()).unwrap());
}

#[test]
fn we_exclude_node_and_hand_over() {
    let scene = Scene::new();
    let lock = scene.acquire().unwrap();
    assert!(is_fresh(&scene.document()).unwrap());
    let mut node = Node::hold(&scene.document());
    assert_eq!(node.answer(), "busy");
    assert_eq!(node.answer_within(Duration::from_millis(300)), None);
    lock.release().unwrap();
    assert_eq!(node.answer(), "held");
    scene.assert_busy();
    assert_eq!(node.release(), "released");
    assert_eq!(scene.neighbours(), [""; 0]);
}

#[test]
fn a_cancelled_wait_ends_and_leaves_the_lock_of_the_other() {
    let scene = Scene::new();
    let mut node = Node::hold(&scene.document());
    assert_eq!(node.answer(), "held");
    let (cancel, started) = (Cancel::default(), Instant::now());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| scene.acquire_unless(&cancel, LONG).map(drop));
        cancel.cancel();
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.class(), Class::Interrupted);
    });
    assert!(started.elapsed() < LONG);
    assert_eq!(scene.neighbours(), ["data.json.lock"]);
    assert_eq!(node.release(), "released");
    scene.acquire().unwrap().release().unwrap();
    assert_eq!(scene.neighbours(), [""; 0]);
}

#[test]
fn a_wait_cancelled_while_a_lock_that_was_taken_over_settles_gives_it_back() {
    // On a busy machine the cancellation may come too late; such a try does not count.
    let interrupted = (0..50).any(|_| {
        let scene = Scene::new();
        scene.leave_stale();
        let cancel = Cancel::default();
        let taken = thread::scope(|scope| {
            let waiting = scope.spawn(|| scene.acquire_unless(&cancel, LONG));
            until("in place", || is_fresh(&scene.document()).unwrap());
            cancel.cancel();
            waiting.join().unwrap()
        });
        let is_interrupted = match taken {
            Ok(lock) => {
                lock.release().unwrap();
                false
            }
            Err(error) => {
                assert_eq!(error.class(), Class::Interrupted);
                true
            }
        };
        assert_eq!(scene.neighbours(), [""; 0]);
        is_interrupted
    });
    assert!(interrupted, "every cancellation came too late");
}

#[test]
fn a_wait_in_vain_names_the_document_its_lock_and_the_time_it_took() {
    let scene = Scene::new();
    let mut node = Node::hold(&scene.document());
    assert_eq!(node.answer(), "held");
    let started = Instant::now();
    let limit = Duration::from_millis(300);
    let error = scene.acquire_within(limit).err().unwrap();
    assert!(started.elapsed() >= limit);
    assert_eq!(error.class(), Class::Busy);
    let resource = error.resource().unwrap().to_string();
    assert_eq!(resource, format!("file:{}", scene.document().display()));
    let message = error.to_string();
    assert!(
        message.contains(scene.lock_path().to_str().unwrap()),
        "{message}"
    );
}

#[test]
fn nobody_takes_over_from_a_holder_that_works_for_longer_than_the_stale_time() {
    let ours = Scene::new();
    let mut holder = holder(&ours.document());
    let mut node_waits = Node::hold(&ours.document());
    assert_eq!(node_waits.answer(), "busy");
    let theirs = Scene::new();
    let mut node_holds = Node::hold(&theirs.document());
    assert_eq!(node_holds.answer(), "held");
    let (theirs_before, _) = theirs.lock().unwrap();

    let wait = STALE_AFTER + Duration::from_secs(2);
    let taken = theirs.acquire_within(wait);
    assert_eq!(taken.err().map(|error| error.class()), Some(Class::Busy));
    assert_eq!(theirs.lock().unwrap().0, theirs_before);
    assert_eq!(node_holds.answer_within(Duration::ZERO), None);
    assert_eq!(node_holds.release(), "released");

    assert_eq!(node_waits.answer_within(Duration::ZERO), None);
    assert_eq!(holder.ask("verify"), "held");
    assert_eq!(holder.ask("release"), "released");
    assert_eq!(node_waits.answer(), "held");
}

#[test]
fn a_symlinked_document_is_locked_under_both_its_names() {
    let scene = Scene::new();
    let link = scene.at("link.json");
    symlink(scene.document(), &link).unwrap();
    let deadline = Instant::now() + LONG;
    let real = scene.acquire().unwrap();
    let given = NodeLock::acquire(&link, deadline, &Cancel::default(), Arc::new(|_| ())).unwrap();
    let mut by_real = Node::hold_what_it_means(&link);
    assert_eq!(by_real.answer(), "busy");
    let mut by_given = Node::hold(&link);
    assert_eq!(by_given.answer(), "busy");
    real.release().unwrap();
    assert_eq!(by_real.answer(), "held");
    assert_eq!(by_given.answer_within(Duration::from_millis(300)), None);
    given.release().unwrap();
    assert_eq!(by_given.answer(), "held");
}

#[test]
fn a_node_program_and_ours_raise_one_counter_in_turn() {
    let scene = Scene::new();
    std::fs::write(scene.document(), "{\"n\": 0}\n").unwrap();
    let rounds = 30;
    let mut node = Node::count(&scene.document(), rounds);
    for _ in 0..rounds {
        let lock = scene.acquire().unwrap();
        let text = std::fs::read_to_string(scene.document()).unwrap();
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["n"] = (document["n"].as_u64().unwrap() + 1).into();
        let new = scene.at("new");
        std::fs::write(&new, document.to_string()).unwrap();
        lock.check().unwrap();
        std::fs::rename(&new, scene.document()).unwrap();
        lock.release().unwrap();
    }
    assert_eq!(node.answer(), rounds.to_string());
    until("the end of the count", || scene.lock().is_none());
    let text = std::fs::read_to_string(scene.document()).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["n"], 2 * rounds);
}
