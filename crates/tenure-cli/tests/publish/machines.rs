//! Manifests of other machines. A directory of the same name is another directory there, so each
//! manifest is left to its own machine.

use std::fs;
use std::process::{Command, Output};

use crate::site::Site;
use crate::stopped::Trace;
use crate::world::{code, text, until};

/// Runs a program on what looks like another machine.
fn elsewhere(site: &Site, program: &[&str]) -> Output {
    let id = site.path("machine-id");
    fs::write(&id, "0123456789abcdef0123456789abcdef\n").unwrap();
    let mut command = Command::new("unshare");
    site.world.prepare(&mut command);
    let script = r#"mount --bind "$0" /etc/machine-id && exec "$@""#;
    command.args(["--mount", "sh", "-c", script]).arg(id);
    command.args(program).output().unwrap()
}

#[test]
fn recovery_leaves_manifests_of_other_machines_alone() {
    let site = Site::postgres();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let renamed = Trace::of(&site).first("renameat2", "RENAME_EXCHANGE");
    let (target, source) = (site.target(), site.source("new"));
    let first = elsewhere(&site, &[tenure, "publish", &site.source("old"), &target]);
    assert_eq!(code(&first), 0, "{first:?}");
    let inject = format!("inject=renameat2:signal=KILL:when={}", renamed.number);
    let trace = [
        "strace",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=renameat2",
        "-e",
        &inject,
    ];
    elsewhere(
        &site,
        &[&trace[..], &[tenure, "publish", &source, &target]].concat(),
    );
    let state_of = |state: &str| {
        let count = format!("SELECT count(*) FROM tenure.manifests WHERE state = '{state}'");
        site.database.as_ref().unwrap().psql(&count)
    };
    assert_eq!(state_of("pending"), "1");
    let left = site.left_in_tmp();
    assert_eq!(left.len(), 1);
    // The lease is over by now, so that it does not keep recovery from the manifest.
    let resource = format!("file:{target}");
    until("the lease is over", || site.world.is_free(&resource));
    let recover = || {
        let recovered = site.world.call(["recover"]);
        assert_eq!(code(&recovered), 0, "{recovered:?}");
        text(&recovered.stdout)
    };
    let said = recover();
    assert!(said.contains("run tenure recover there"), "{said}");
    // A publish here does not judge it either: its target is another directory.
    site.published("here", &target);
    assert_eq!(state_of("pending"), "1");
    // Its own machine judges it; afterwards that machine also has to remove the leftovers.
    let recovered = elsewhere(&site, &[tenure, "recover"]);
    assert_eq!(code(&recovered), 0, "{recovered:?}");
    assert_eq!(
        (state_of("pending"), state_of("aborted")),
        ("0".into(), "1".into())
    );
    let database = site.database.as_ref().unwrap();
    database.psql("UPDATE tenure.records SET changed_at = '2020-01-01'");
    recover();
    assert_eq!(site.left_in_tmp(), left);
    let recovered = elsewhere(&site, &[tenure, "recover"]);
    assert_eq!(code(&recovered), 0, "{recovered:?}");
    assert_eq!(site.left_in_tmp(), [""; 0]);
}
