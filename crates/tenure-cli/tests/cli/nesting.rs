//! `run` inside `run`.

use crate::world::{World, code, json, text};

/// Runs `inner` as a shell script under the outer `run`.
fn nested(world: &World, outer: &[&str], inner: &str) -> std::process::Output {
    let arguments = outer.iter().copied().chain(["--", "sh", "-c", inner]);
    world.run(arguments)
}

#[test]
fn asking_for_what_an_outer_run_holds_is_a_conflict_at_once() {
    for world in World::each() {
        let output = nested(&world, &["x"], "\"$TENURE\" run --wait 60s x -- touch ran");
        assert_eq!(code(&output), 76, "{output:?}");
        assert!(text(&output.stderr).contains("--reuse"), "{output:?}");
        assert!(!world.path("ran").exists());
    }
}

#[test]
fn reuse_runs_under_the_outer_lease() {
    for world in World::each() {
        let inner = "echo $TENURE_LEASE $TENURE_TOKEN; \
                 \"$TENURE\" run --reuse x -- sh -c 'echo $TENURE_LEASE $TENURE_TOKEN'";
        let output = nested(&world, &["x"], inner);
        assert_eq!(code(&output), 0, "{output:?}");
        let said = text(&output.stdout);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], lines[1]);
    }
}

#[test]
fn reuse_takes_what_is_missing_and_gives_only_that_back() {
    for world in World::each() {
        let inner = "\"$TENURE\" run --reuse x y -- sh -c 'echo $TENURE_RESOURCE'; \
                 \"$TENURE\" run --no-wait y -- true && echo y is free; \
                 env -u TENURE_LEASES \"$TENURE\" run --no-wait -E 9 x -- true; echo $?";
        let output = nested(&world, &["x"], inner);
        assert_eq!(
            text(&output.stdout),
            "name:x,name:y\ny is free\n9\n",
            "{output:?}"
        );
    }
}

#[test]
fn reuse_needs_a_lease_that_is_strong_enough() {
    for world in World::each() {
        let weak = nested(&world, &["x=read"], "\"$TENURE\" run --reuse x -- true");
        assert_eq!(code(&weak), 76, "{weak:?}");
        let said = text(&weak.stderr);
        assert!(
            said.contains("the outer run holds name:x for read"),
            "{said}"
        );
        assert!(
            said.contains("start the outer run with name:x=write"),
            "{said}"
        );
        let strong = nested(
            &world,
            &["x=write"],
            "\"$TENURE\" run --reuse x=read -- true",
        );
        assert_eq!(code(&strong), 0, "{strong:?}");
    }
}

#[test]
fn reuse_without_an_outer_run_takes_the_lock_itself() {
    for world in World::each() {
        let output = world.run(["--reuse", "x", "--", "sh", "-c", "echo $TENURE_RESOURCE"]);
        assert_eq!(text(&output.stdout), "name:x\n");
    }
}

#[test]
fn the_order_of_locks_counts_what_outer_runs_hold() {
    for world in World::each() {
        let output = nested(&world, &["map:b"], "\"$TENURE\" run project:a -- true");
        assert_eq!(code(&output), 76);
        let said = text(&output.stderr);
        assert!(
            said.contains("project:a") && said.contains("map:b"),
            "{said}"
        );
        let output = nested(&world, &["project:a"], "\"$TENURE\" run map:b -- true");
        assert_eq!(code(&output), 0, "{output:?}");
    }
}

#[test]
fn the_order_of_locks_counts_other_stores_but_re_entry_does_not() {
    for world in World::each() {
        let other = "--store \"file:$PWD/other\"";
        let inner = format!("\"$TENURE\" run {other} a -- true");
        assert_eq!(code(&nested(&world, &["b"], &inner)), 76);
        let inner = format!("\"$TENURE\" run {other} b -- true");
        let output = nested(&world, &["b"], &inner);
        assert_eq!(
            code(&output),
            0,
            "the same name in another store is another lock: {output:?}"
        );
    }
}

#[test]
fn re_entry_is_seen_through_another_spelling_of_the_store() {
    for world in World::each() {
        std::os::unix::fs::symlink(".", world.path("link")).unwrap();
        let store = match world.is_file() {
            true => "file:link/store",
            false => "sqlite:link/store/tenure.db",
        };
        let inner = format!("\"$TENURE\" run --store {store} --wait 60s x -- true");
        assert_eq!(code(&nested(&world, &["x"], &inner)), 76);
    }
}

#[test]
fn three_deep_all_leases_are_known_innermost_first() {
    for world in World::each() {
        let inner = "\"$TENURE\" run b -- \"$TENURE\" run c -- sh -c 'printenv TENURE_LEASES'";
        let output = nested(&world, &["a"], inner);
        let leases = json(&output.stdout);
        let leases = leases["leases"].as_array().unwrap();
        let resources: Vec<_> = leases
            .iter()
            .map(|lease| lease["resource"].as_str().unwrap())
            .collect();
        assert_eq!(resources, ["name:c", "name:b", "name:a"]);
        assert!(
            leases
                .iter()
                .all(|lease| lease["store"] == world.store().as_str())
        );
    }
}

#[test]
fn a_lease_that_is_gone_no_longer_counts() {
    for world in World::each() {
        let output = world.run(["x", "--", "sh", "-c", "printenv TENURE_LEASES"]);
        let leases = text(&output.stdout);
        let later = world
            .tenure()
            .env("TENURE_LEASES", leases.trim())
            .args(["run", "x", "--", "true"])
            .output();
        assert_eq!(code(&later.unwrap()), 0);
    }
}

#[test]
fn garbage_in_the_variable_is_refused() {
    let world = World::new();
    let output = world
        .tenure()
        .env("TENURE_LEASES", "{")
        .args(["run", "x", "--", "true"])
        .output();
    let output = output.unwrap();
    assert_eq!(code(&output), 78);
    assert!(text(&output.stderr).contains("TENURE_LEASES"));
}
