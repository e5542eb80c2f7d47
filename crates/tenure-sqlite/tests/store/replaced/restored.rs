//! An older copy is written over the database: the files stay the same, what is in them does not.
//!
//! The holder is stopped, so that it does not notice: only what the kernel knows of it is left.

use std::process::Command;
use std::time::Duration;

use tenure::Mode;
use tenure_testkit::agent::Agent;

use crate::scene::Scene;

const FILES: [&str; 3] = ["tenure.db", "tenure.db-wal", "tenure.db-shm"];
const A_MOMENT: Duration = Duration::from_millis(300);

/// Copied by another program: this process must not close files that SQLite has locked for it.
fn copy(scene: &Scene, end_from: &str, end_to: &str) {
    for name in FILES {
        let copied = Command::new("cp")
            .arg(scene.path(&format!("{name}{end_from}")))
            .arg(scene.path(&format!("{name}{end_to}")))
            .status();
        assert!(copied.unwrap().success());
    }
}

fn save(scene: &Scene) {
    copy(scene, "", "-saved");
}

fn restore(scene: &Scene) {
    copy(scene, "-saved", "");
}

/// Nobody gets anything while the holder lives, and everybody does when it is dead.
fn assert_others_wait_for_its_end(scene: &Scene, mut holder: Agent, name: &str) {
    let mut zed = scene.process("zed");
    for asked in [name, "other"] {
        let wanted = zed.want_for(asked, Mode::Read, A_MOMENT);
        let failure = zed.failed(wanted);
        assert!(failure.message.contains("replaced"), "{}", failure.message);
    }
    holder.crash();
    zed.take(name, Mode::Write);
    zed.release(name);
}

#[test]
fn a_writer_that_the_copy_does_not_know_keeps_others_out() {
    let scene = Scene::new();
    let mut ana = scene.process("ana");
    ana.take("a", Mode::Write);
    ana.release("a");
    save(&scene);
    ana.take("b", Mode::Write);
    ana.stop();
    restore(&scene);
    assert_others_wait_for_its_end(&scene, ana, "b");
}

/// No token is given to a reader, and yet the copy is told from what it is a copy of.
#[test]
fn a_reader_that_the_copy_does_not_know_keeps_others_out() {
    let scene = Scene::new();
    let mut ana = scene.process("ana");
    ana.take("a", Mode::Write);
    ana.release("a");
    save(&scene);
    ana.take("a", Mode::Read);
    ana.stop();
    restore(&scene);
    assert_others_wait_for_its_end(&scene, ana, "a");
}

#[test]
fn a_session_that_the_copy_knows_keeps_what_it_was_granted_since() {
    let scene = Scene::new();
    let mut ana = scene.process("ana");
    ana.take("a", Mode::Write);
    save(&scene);
    ana.take("b", Mode::Write);
    ana.stop();
    restore(&scene);
    assert_others_wait_for_its_end(&scene, ana, "b");
}

#[test]
fn a_waiter_that_was_granted_since_keeps_others_out() {
    let scene = Scene::new();
    let mut ana = scene.process("ana");
    let mut bo = scene.process("bo");
    bo.take("a", Mode::Write);
    save(&scene);
    let wanted = ana.want("a", Mode::Read);
    bo.release("a");
    ana.granted(wanted);
    bo.crash();
    ana.stop();
    restore(&scene);
    assert_others_wait_for_its_end(&scene, ana, "a");
}

#[test]
fn an_upgrade_that_the_copy_does_not_know_keeps_others_out() {
    let scene = Scene::new();
    let mut ana = scene.process("ana");
    let mut bo = scene.process("bo");
    ana.take("a", Mode::Upgradeable);
    bo.take("a", Mode::Read);
    save(&scene);
    let wanted = ana.want_upgrade("a", Duration::from_secs(30));
    bo.release("a");
    ana.upgraded(wanted);
    bo.crash();
    ana.stop();
    restore(&scene);
    assert_others_wait_for_its_end(&scene, ana, "a");
}

/// What it was granted since is over, so it keeps nobody out any more, although it lives.
#[test]
fn a_session_that_gave_back_what_the_copy_does_not_know_keeps_nobody_out() {
    let scene = Scene::new();
    let mut ana = scene.process("ana");
    ana.take("a", Mode::Write);
    save(&scene);
    ana.take("b", Mode::Write);
    ana.release("b");
    ana.stop();
    restore(&scene);
    let mut zed = scene.process("zed");
    assert!(zed.try_take("a", Mode::Write).is_none());
    zed.take("b", Mode::Write);
}
