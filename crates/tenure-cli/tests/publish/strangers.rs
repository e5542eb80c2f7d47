//! Programs that take no lock, and replace a directory that a publisher is working on: their
//! directory is put back, and the publish is given up.

use std::fs;
use std::path::Path;

use crate::site::Site;
use crate::stopped::{Stopped, Trace};
use crate::world::{code, text};

/// Puts a stranger's directory in the place of another one, which is gone after that.
fn replace_by_stranger(site: &Site, path: &Path) {
    fs::remove_dir_all(path).unwrap();
    fs::rename(site.source("stranger"), path).unwrap();
}

#[test]
fn a_target_replaced_in_the_instant_of_the_exchange_is_put_back() {
    let site = Site::sqlite();
    let step = Trace::of(&site).last_before_rename("statx");
    let target = site.target();
    site.published("old", &target);
    let source = site.source("slow");
    // The publisher has looked at both inodes, and exchanges next.
    let stopped = Stopped::at(&site, &step, &["publish", &source, &target]);
    replace_by_stranger(&site, Path::new(&target));
    let output = stopped.go_on();
    assert_ne!(code(&output), 0, "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("by a program that takes no lock"), "{said}");
    assert_eq!(site.content(&target).as_deref(), Some("stranger"));
    assert_eq!(site.states(&target), ["committed", "aborted"]);
    assert_eq!(site.left_in_tmp(), [""; 0]);
}

#[test]
fn recovery_exchanges_back_what_is_neither_old_nor_new() {
    let site = Site::sqlite();
    let step = Trace::of(&site).first("renameat2", "RENAME_EXCHANGE");
    let target = site.target();
    site.published("old", &target);
    let source = site.source("slow");
    // The publisher has exchanged, and not yet compared what it got.
    let stopped = Stopped::at(&site, &step, &["publish", &source, &target]);
    assert_eq!(site.content(&target).as_deref(), Some("slow"));
    let left = site.left_in_tmp();
    assert_eq!(left.len(), 1);
    let tmp = site.path("srv/tmp").join(&left[0]);
    replace_by_stranger(&site, &tmp);
    drop(stopped);
    let recovered = site.world.call(["recover"]);
    assert_eq!(code(&recovered), 0, "{recovered:?}");
    assert_eq!(site.content(&target).as_deref(), Some("stranger"));
    assert_eq!(site.content(tmp.to_str().unwrap()).as_deref(), Some("slow"));
    assert_eq!(site.states(&target), ["committed", "aborted"]);
    let audit = text(&site.world.call(["audit"]).stdout);
    assert!(audit.contains("exchanged back"), "{audit}");
}
