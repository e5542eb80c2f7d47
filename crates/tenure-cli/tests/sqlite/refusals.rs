//! Refusals, and their exit codes.

use crate::holder::Holder;
use crate::process::{Process, the_lease, until_in_line};
use crate::world::{World, code, text};

#[test]
fn what_belongs_to_another_owner_is_77() {
    let world = World::new();
    let lease = world.lock(["x=upgradeable", "--owner", "ana"]);
    for verb in ["release", "renew", "upgrade", "downgrade"] {
        let output = world.call([verb, &lease, "--owner", "eve"]);
        assert_eq!(code(&output), 77, "{verb}: {output:?}");
        assert!(text(&output.stderr).contains("ana"), "{output:?}");
        let mut by_environment = world.tenure();
        by_environment
            .args([verb, &lease])
            .env("TENURE_OWNER", "eve");
        assert_eq!(code(&by_environment.output().unwrap()), 77, "{verb}");
    }
    assert_eq!(the_lease(&world)["mode"], "upgradeable");
    assert_eq!(code(&world.call(["release", &lease, "--owner", "ana"])), 0);
}

#[test]
fn what_is_held_by_a_run_is_77() {
    let world = World::new();
    let _holder = Holder::start(&world, ["x"]);
    let lease = the_lease(&world);
    let lease = lease["lease"].as_str().unwrap();
    for verb in ["release", "renew", "upgrade", "downgrade"] {
        let output = world.call([verb, lease]);
        assert_eq!(code(&output), 77, "{verb}: {output:?}");
    }
    assert!(!world.is_free("x"));
}

#[test]
fn an_unknown_lease_is_66_and_a_malformed_one_is_bad_usage() {
    let world = World::new();
    for verb in ["release", "renew", "upgrade", "downgrade"] {
        assert_eq!(code(&world.call([verb, "nosuch"])), 66, "{verb}");
        for malformed in ["", "a b", "../x", "ä", &"a".repeat(200)] {
            // A text that is no id names a resource for `release`.
            if verb == "release" && tenure::Resource::parse(malformed).is_ok() {
                assert_eq!(code(&world.call([verb, malformed])), 66, "{malformed}");
                continue;
            }
            let output = world.call([verb, malformed]);
            assert!(
                matches!(code(&output), 2 | 65),
                "{verb} {malformed}: {output:?}"
            );
        }
    }
    let unknown = ["break", "nosuch", "--reason", "why", "--yes"];
    assert_eq!(code(&world.call(unknown)), 66);
    let malformed = ["break", "a b", "--reason", "why", "--yes"];
    assert!(matches!(code(&world.call(malformed)), 2 | 65));
}

#[test]
fn an_upgrade_that_could_only_end_in_a_deadlock_is_refused_by_order() {
    let world = World::new();
    let ours = world.json(["lock", "a=upgradeable", "b=read", "--ttl", "1h"]);
    let a = ours["leases"][0]["lease"].as_str().unwrap();
    let b = ours["leases"][1]["lease"].as_str().unwrap();
    let theirs = [
        "lock", "a=read", "b=write", "--wait", "60s", "--owner", "theirs",
    ];
    let theirs = Process::tenure(&world, theirs);
    until_in_line(&world, "theirs");
    let refused = world.call(["upgrade", a, "--wait", "60s"]);
    assert_eq!(code(&refused), 76, "{refused:?}");
    let said = text(&refused.stderr);
    assert!(said.contains("name:a") && said.contains("name:b"), "{said}");
    // Nothing is stuck: the others go on as soon as our leases are given back.
    assert_eq!(code(&world.call(["release", b])), 0);
    assert_eq!(code(&theirs.end()), 0);
}
