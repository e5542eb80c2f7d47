//! Directories that an ordinary user may not write.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::site::Site;
use crate::stopped::Trace;
use crate::world::{code, text};

const USER: u32 = 65534;

/// Makes a site that belongs to an ordinary user.
fn site_of_user() -> Site {
    let site = Site::sqlite();
    site.world.copy_of_tenure();
    site.source("one");
    site.source("two");
    let mut chowned = Command::new("chown");
    chowned.args(["-R", &format!("{USER}:{USER}")]);
    assert!(chowned.arg(site.path("")).status().unwrap().success());
    site
}

fn as_user(site: &Site, arguments: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    site.world.prepare(&mut command);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.args(arguments).output().unwrap()
}

fn set_mode(site: &Site, name: &str, mode: u32) {
    fs::set_permissions(site.path(name), Permissions::from_mode(mode)).unwrap();
}

fn mode(site: &Site, name: &str) -> u32 {
    let found = fs::metadata(site.path(name)).unwrap();
    found.permissions().mode() & 0o7777
}

#[test]
fn an_ordinary_user_publishes_a_directory_without_write_permission_with_its_mode() {
    let site = site_of_user();
    let (tenure, target) = (site.path("tenure").display().to_string(), site.target());
    set_mode(&site, "src-one", 0o555);
    let publish = |source: &str| as_user(&site, &[&tenure, "publish", source, &target]);
    let first = publish("src-one");
    assert_eq!(code(&first), 0, "{first:?}");
    assert_eq!(mode(&site, "srv/tiles"), 0o555);
    // A target that may not be written cannot be moved away. The refusal comes before the copy.
    let refused = publish("src-two");
    assert_eq!(code(&refused), 65, "{refused:?}");
    assert!(
        text(&refused.stderr).contains(&format!("chmod u+w {target}")),
        "{refused:?}"
    );
    assert!(site.left_in_tmp().is_empty(), "nothing was copied");
    let history = as_user(&site, &[&tenure, "publish", "--history", &target]);
    assert!(!text(&history.stdout).contains("aborted"), "{history:?}");
    set_mode(&site, "srv/tiles", 0o755);
    let second = publish("src-two");
    assert_eq!(code(&second), 0, "{second:?}");
    assert_eq!(site.content(&target).as_deref(), Some("two"));
    assert_eq!(site.left_in_tmp(), [""; 0]);
}

#[test]
fn recovery_sets_the_mode_that_a_killed_publisher_had_not_set() {
    let site = Site::sqlite();
    let renamed = Trace::of(&site).first("renameat2", "RENAME_EXCHANGE");
    let (target, source) = (site.target(), site.source("new"));
    site.published("old", &target);
    set_mode(&site, "src-new", 0o555);
    drop(crate::stopped::Stopped::at(
        &site,
        &renamed,
        &["publish", &source, &target],
    ));
    assert_eq!(
        (site.content(&target).as_deref(), mode(&site, "srv/tiles")),
        (Some("new"), 0o755)
    );
    assert_eq!(code(&site.world.call(["recover"])), 0);
    assert_eq!(mode(&site, "srv/tiles"), 0o555);
    assert_eq!(site.states(&target), ["committed", "committed"]);
}

#[test]
fn what_gets_another_owner_loses_setuid_and_setgid_and_nothing_else_does() {
    let site = Site::sqlite();
    let (source, target) = (site.source("one"), site.target());
    for (name, owner) in [("theirs", USER), ("ours", 0)] {
        fs::write(site.path(&format!("src-one/{name}")), "#!/bin/sh\n").unwrap();
        std::os::unix::fs::chown(
            site.path(&format!("src-one/{name}")),
            Some(owner),
            Some(owner),
        )
        .unwrap();
        set_mode(&site, &format!("src-one/{name}"), 0o6755);
    }
    let published = site.world.call(["publish", &source, &target]);
    assert_eq!(code(&published), 0, "{published:?}");
    assert_eq!(mode(&site, "srv/tiles/theirs"), 0o755);
    assert_eq!(mode(&site, "srv/tiles/ours"), 0o6755);
    let told = text(&published.stderr);
    assert!(told.contains("src-one/theirs"), "{told}");
    assert!(!told.contains("src-one/ours"), "{told}");
    let verified = site.world.call(["publish", "--verify", &target]);
    assert_eq!(code(&verified), 0, "{verified:?}");
}

#[test]
fn a_file_that_had_capabilities_is_told() {
    // The words are version 2 with the effective flag; CAP_NET_BIND_SERVICE is permitted.
    const CAPABILITY: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
    let words = CAPABILITY.iter();
    let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    let site = Site::sqlite();
    let (source, target) = (site.source("one"), site.target());
    let ping = site.path("src-one/ping");
    fs::write(&ping, "ping").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&ping, "security.capability", &bytes, flags).unwrap();
    let published = site.world.call(["publish", &source, &target]);
    assert_eq!(code(&published), 0, "{published:?}");
    let told = text(&published.stderr);
    let expected = format!("file capabilities are not copied: {}\n", ping.display());
    assert!(told.contains(&expected), "{told}");
}

#[test]
fn devices_and_sockets_are_refused() {
    let site = Site::sqlite();
    let source = site.source("one");
    let refused = || {
        let output = site.world.call(["publish", &source, &site.target()]);
        assert_eq!(code(&output), 65, "{output:?}");
        assert!(
            text(&output.stderr).contains("neither file, directory nor link"),
            "{output:?}"
        );
    };
    let socket = site.path("src-one/socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    refused();
    fs::remove_file(socket).unwrap();
    let device = site.path("src-one/null");
    let made = Command::new("mknod")
        .arg(&device)
        .args(["c", "1", "3"])
        .status();
    assert!(made.unwrap().success());
    refused();
    assert_eq!(site.content(&site.target()), None);
}
