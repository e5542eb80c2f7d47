//! Other devices, changed sources, strangers' directories, full disks, and databases that are gone.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::site::Site;
use crate::stopped::{Point, Stopped, points};
use crate::world::{code, holds_within, text};

#[test]
fn a_target_on_another_device_is_refused_before_anything_is_written() {
    let site = Site::sqlite();
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    symlink(elsewhere.path(), site.path("srv/tmp")).unwrap();
    let output = site.publish("one", &site.target());
    assert_eq!(code(&output), 65, "{output:?}");
    assert!(
        text(&output.stderr).contains("on different devices"),
        "{output:?}"
    );
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert_eq!(site.content(&site.target()), None);
    assert_eq!(site.states(&site.target()), ["aborted"]);
}

#[test]
fn a_source_that_changes_while_it_is_read_is_not_published() {
    let site = Site::sqlite();
    let target = site.target();
    site.published("old", &target);
    let source = site.source("new");
    let traced = site.path("srv/traced").display().to_string();
    site.published("old", &traced);
    let points = points(&site, &["publish", &source, &traced]);
    let synced = points
        .iter()
        .position(|point| point.line.contains("/a.txt\", O_WRONLY"))
        .unwrap();
    let synced = points[synced..]
        .iter()
        .find(|point| point.call == "fsync")
        .unwrap();
    let changes: [&dyn Fn(); 3] = [
        &|| fs::write(site.path("src-new/a.txt"), "a of NEW").unwrap(),
        &|| fs::write(site.path("src-new/in/another"), "").unwrap(),
        &|| fs::remove_file(site.path("src-new/a.txt")).unwrap(),
    ];
    let is_copied = || {
        let left = site.left_in_tmp();
        left.iter()
            .any(|id| site.path(&format!("srv/tmp/{id}/a.txt")).exists())
    };
    for change in changes {
        // The store sometimes syncs something of its own, which shifts the number of the call.
        let mut stopped = Stopped::at(&site, synced, &["publish", &source, &target]);
        let mut tries = 1;
        while !is_copied() {
            tries += 1;
            assert!(tries < 10, "it never stands still after the copy");
            assert_eq!(code(&stopped.go_on()), 0);
            site.published("old", &target);
            stopped = Stopped::at(&site, synced, &["publish", &source, &target]);
        }
        change();
        let output = stopped.go_on();
        assert_eq!(code(&output), 65, "{output:?}");
        assert!(
            text(&output.stderr).contains("was changed while it was read"),
            "{output:?}"
        );
        assert_eq!(site.content(&target).as_deref(), Some("old"));
        assert_eq!(site.left_in_tmp(), [""; 0]);
        fs::remove_dir_all(&source).unwrap();
        site.source("new");
    }
}

#[test]
fn strangers_directories_in_tmp_are_never_touched() {
    let site = Site::sqlite();
    let target = site.target();
    let stranger = "01a1edc8-bb1a-7467-be4a-7ae8c72e99da";
    fs::create_dir_all(site.path("srv/tmp").join(stranger).join("inner")).unwrap();
    site.published("one", &target);
    site.published("two", &target);
    // A crash left both; the one is old by now, and a stranger took the place of the other.
    let source = site.source("killed");
    let points = points(&site, &["publish", &source, &target]);
    let is_it = |point: &&Point| point.call == "renameat2" && point.line.contains("/srv/tmp/");
    let renamed = points.iter().find(is_it).unwrap();
    for _ in 0..2 {
        let inject = format!("inject=renameat2:signal=KILL:when={}", renamed.number);
        let options = ["-e", "trace=renameat2", "-e", inject.as_str()];
        let mut killed = crate::stopped::strace(&site, &options, &["publish", &source, &target]);
        let output = killed.output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
    }
    assert_eq!(code(&site.world.call(["recover"])), 0);
    let mut left = site.left_in_tmp();
    left.retain(|name| name != stranger);
    assert_eq!(left.len(), 2, "they are young");
    let taken = site.path("srv/tmp").join(&left[0]);
    fs::remove_dir_all(&taken).unwrap();
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("mine"), "").unwrap();
    let script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n\
                  c.execute(\"UPDATE records SET changed_at = '2020-01-01T00:00:00.000Z'\")\nc.commit()";
    let mut python = Command::new("python3");
    assert!(
        python
            .args(["-c", script])
            .arg(site.path("store/tenure.db"))
            .status()
            .unwrap()
            .success()
    );
    let said = text(&site.world.call(["recover"]).stdout);
    assert!(
        said.contains(&format!("kept: {}", taken.display())),
        "{said}"
    );
    assert!(said.contains("removed: "), "{said}");
    let mut now = site.left_in_tmp();
    now.sort();
    let mut expected = vec![left[0].clone(), stranger.to_owned()];
    expected.sort();
    assert_eq!(now, expected);
    assert!(taken.join("mine").exists());
    let audit = text(&site.world.call(["audit"]).stdout);
    assert!(audit.contains(&left[1]), "{audit}");
}

#[test]
fn on_a_full_disk_the_old_directory_stays_and_nothing_is_left() {
    let site = Site::sqlite();
    let target = site.target();
    let source = site.source("new");
    fs::write(site.path("src-new/large"), vec![7; 3 << 20]).unwrap();
    let small = site.source("small");
    let script = r#"mount -t tmpfs -o size=1m tmpfs "$1" && cd / &&
        "$TENURE" publish "$3" "$2" && { "$TENURE" publish "$4" "$2"; echo "code $?"; } &&
        ls "$1/tmp" | wc -l && cat "$2/a.txt" && "$TENURE" publish "$3" "$2" && "$TENURE" publish --verify "$2""#;
    let mut command = Command::new("unshare");
    site.world.prepare(&mut command);
    let srv = site.path("srv");
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&srv);
    let output = command.args([&target, &small, &source]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert!(
        said.contains("code 69\n0\na of small"),
        "{said} {}",
        text(&output.stderr)
    );
}

#[test]
fn a_database_that_is_gone_when_the_target_is_new_gets_its_manifest_by_recovery() {
    let site = Site::postgres();
    let database = site.database.as_ref().unwrap();
    let target = site.target();
    site.published("old", &target);
    let source = site.source("new");
    let traced = site.path("srv/traced").display().to_string();
    site.published("old", &traced);
    let points = points(&site, &["publish", &source, &traced]);
    let renamed = points
        .iter()
        .find(|point| point.call == "renameat2")
        .unwrap();
    let stopped = Stopped::at(&site, renamed, &["publish", &source, &target]);
    let name = database.name();
    let other = tenure_testkit::postgres::Cluster::shared().database();
    other.psql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"));
    other.psql(&format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'"
    ));
    let output = stopped.go_on();
    assert_ne!(code(&output), 0, "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("is in place, and its manifest"), "{said}");
    other.psql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"));
    assert_eq!(site.content(&target).as_deref(), Some("new"));
    assert_eq!(site.states(&target), ["committed", "pending"]);
    // The lease of the publish runs out after a while.
    let committed = || {
        let recovered = site.world.call(["recover"]);
        code(&recovered) == 0 && site.states(&target) == ["committed", "committed"]
    };
    assert!(holds_within(crate::world::DEADLINE, committed));
    site.verified(&target);
}
