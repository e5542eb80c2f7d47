//! Leftovers of crashes: which are removed and which are kept, and that the audit and `recover`
//! tell of them.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::site::Site;
use crate::stopped::{Stopped, Trace};
use crate::world::{code, json, text};

/// Makes the records of a store more than an hour old.
fn age(site: &Site) {
    let script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n\
                  c.execute(\"UPDATE records SET changed_at = '2020-01-01T00:00:00.000Z'\")\nc.commit()";
    let mut python = Command::new("python3");
    python
        .args(["-c", script])
        .arg(site.path("store/tenure.db"));
    assert!(python.status().unwrap().success());
}

/// Counts the audit entries about the removal of a directory of this name.
fn removals(site: &Site, name: &str) -> usize {
    let audit = site.world.json(["audit"]);
    let tells = |entry: &&Value| {
        entry["action"] == "remove" && entry["reason"].as_str().unwrap().contains(name)
    };
    audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(tells)
        .count()
}

#[track_caller]
fn recover(site: &Site) -> String {
    let output = site.world.call(["recover"]);
    assert_eq!(code(&output), 0, "{output:?}");
    text(&output.stdout)
}

#[test]
fn what_no_manifest_names_by_its_inode_is_removed_only_if_it_is_empty() {
    let site = Site::sqlite();
    let made = Trace::of(&site).first("mkdir", "/srv/tmp/0");
    let (target, source) = (site.target(), site.source("killed"));
    // Each publisher was killed after it made its directory, and before it wrote the inode.
    let mut left = Vec::new();
    for number in 1..=2 {
        drop(Stopped::at(&site, &made, &["publish", &source, &target]));
        let mut now = site.left_in_tmp();
        now.retain(|name| !left.contains(name));
        assert_eq!(now.len(), 1, "{number}");
        left.append(&mut now);
    }
    recover(&site);
    assert_eq!(site.states(&target), ["aborted", "aborted"]);
    let stranger = site.path("srv/tmp").join(&left[0]);
    fs::remove_dir(&stranger).unwrap();
    fs::create_dir(&stranger).unwrap();
    fs::write(stranger.join("mine"), "").unwrap();
    age(&site);
    let dry = text(&site.world.call(["recover", "--dry-run"]).stdout);
    assert!(dry.contains("it can be removed"), "{dry}");
    assert_eq!(site.left_in_tmp().len(), 2);
    let said = recover(&site);
    assert!(
        said.contains(&format!("kept: {}", stranger.display())),
        "{said}"
    );
    assert_eq!(site.left_in_tmp(), [left[0].clone()]);
    assert!(stranger.join("mine").exists());
    assert_eq!(
        (removals(&site, &left[0]), removals(&site, &left[1])),
        (0, 1)
    );
}

#[test]
fn a_part_of_a_copy_is_told_from_a_strangers_directory_by_its_inode() {
    let site = Site::sqlite();
    let copied = Trace::of(&site).first("open", "/a.txt\", O_WRONLY");
    let (target, source) = (site.target(), site.source("killed"));
    drop(Stopped::at(&site, &copied, &["publish", &source, &target]));
    let left = site.left_in_tmp();
    let tmp = site.path("srv/tmp").join(&left[0]);
    recover(&site);
    age(&site);
    // Another directory has the name now.
    fs::rename(&tmp, site.path("moved")).unwrap();
    fs::create_dir(&tmp).unwrap();
    fs::write(tmp.join("mine"), "").unwrap();
    assert!(recover(&site).contains("kept: "));
    assert!(tmp.join("mine").exists());
    // The directory that the manifest names is back.
    fs::remove_dir_all(&tmp).unwrap();
    fs::rename(site.path("moved"), &tmp).unwrap();
    assert!(recover(&site).contains("removed: "));
    assert_eq!(site.left_in_tmp(), [""; 0]);
}

#[test]
fn every_removal_is_in_the_audit() {
    let site = Site::sqlite();
    let removing = Trace::of(&site).first("unlinkat", "");
    let target = site.target();
    site.published("old", &target);
    // This publish is given up.
    let source = site.source("pipe");
    let pipe = site.path("src-pipe/pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let output = site.world.call(["publish", &source, &target]);
    assert_eq!(code(&output), 65, "{output:?}");
    let history = site.world.json(["publish", "--history", &target]);
    let given_up = history["manifests"][1]["id"].as_str().unwrap().to_owned();
    assert_eq!(removals(&site, &given_up), 1);
    // The process that removed this directory was killed before it could write that down.
    let source = site.source("new");
    drop(Stopped::at(
        &site,
        &removing,
        &["publish", &source, &target],
    ));
    let left = site.left_in_tmp();
    assert_eq!(left.len(), 1);
    fs::remove_dir_all(site.path("srv/tmp").join(&left[0])).unwrap();
    assert_eq!(removals(&site, &left[0]), 0);
    age(&site);
    recover(&site);
    assert_eq!(removals(&site, &left[0]), 1);
    recover(&site);
    assert_eq!(removals(&site, &left[0]), 1, "once");
}

#[test]
fn before_recovery_a_target_is_not_called_damaged_and_recovery_tells_the_manifest_as_it_is() {
    let site = Site::sqlite();
    let renamed = Trace::of(&site).first("renameat2", "RENAME_EXCHANGE");
    let (target, source) = (site.target(), site.source("new"));
    site.published("old", &target);
    drop(Stopped::at(&site, &renamed, &["publish", &source, &target]));
    let unfinished = site.world.call(["publish", "--verify", &target]);
    assert_eq!(code(&unfinished), 76, "{unfinished:?}");
    let said = text(&unfinished.stderr);
    assert!(
        said.contains("is not finished") && said.contains("run tenure recover"),
        "{said}"
    );
    let dry = site.world.json(["recover", "--dry-run"]);
    assert_eq!(
        (
            &dry["manifests"][0]["state"],
            &dry["manifests"][0]["outcome"]
        ),
        (&"pending".into(), &"kept".into())
    );
    assert_eq!(site.states(&target), ["committed", "pending"]);
    let recovered = site.world.call(["recover", "--json"]);
    let recovered = json(&recovered.stdout)["manifests"][0].clone();
    assert_eq!(recovered["outcome"], "committed");
    let stored = site.world.json(["publish", "--history", &target])["manifests"][1].clone();
    for field in ["state", "files", "committed_at"] {
        assert_eq!(recovered[field], stored[field], "{field}");
    }
    assert_eq!(stored["files"].as_array().unwrap().len(), 2);
    site.verified(&target);
}

#[test]
fn on_another_boot_device_numbers_do_not_count() {
    let site = Site::sqlite();
    let renamed = Trace::of(&site).first("renameat2", "RENAME_EXCHANGE");
    let (target, source) = (site.target(), site.source("new"));
    site.published("old", &target);
    drop(Stopped::at(&site, &renamed, &["publish", &source, &target]));
    // The records look as after a start of the machine, in which the disk got another number.
    let script = "import sqlite3, sys, re\nc = sqlite3.connect(sys.argv[1])\n\
        for kind, id, body in c.execute(\"SELECT kind, id, body FROM records WHERE kind = 'manifest'\").fetchall():\n \
        body = re.sub(r'\"boot\":\"[^\"]*\"', '\"boot\":\"another\"', body)\n \
        body = re.sub(r'\"device\":\"[^\"]*\"', '\"device\":\"9:9\"', body)\n \
        c.execute('UPDATE records SET body = ? WHERE kind = ? AND id = ?', (body, kind, id))\nc.commit()";
    let mut python = Command::new("python3");
    python
        .args(["-c", script])
        .arg(site.path("store/tenure.db"));
    assert!(python.status().unwrap().success());
    recover(&site);
    assert_eq!(site.states(&target), ["committed", "committed"]);
    site.verified(&target);
    age(&site);
    assert!(recover(&site).contains("removed: "));
    assert_eq!(site.left_in_tmp(), [""; 0]);
}
