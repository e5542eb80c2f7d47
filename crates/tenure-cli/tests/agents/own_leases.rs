//! Leases of others: an agent that may not break them may not end them in another way.

use std::process::{Command, Output};

use serde_json::{Value, json};
use tenure_testkit::postgres::Cluster;

use crate::place::{GUARDS, ONE, ONE_OWNER, OTHER, Place, reason};
use crate::world::{World, code, json as parse, text, until};

/// Returns the command as the shell of a Claude Code agent calls it.
fn under(world: &World, session: &str) -> Command {
    let mut command = world.tenure();
    command.env("CLAUDECODE", "1");
    command.env("CLAUDE_CODE_SESSION_ID", session);
    command
}

fn call(world: &World, session: &str, arguments: &[&str]) -> Output {
    under(world, session).args(arguments).output().unwrap()
}

/// Runs the test with a store of each kind that keeps leases of their own.
fn on_both(act: impl Fn(&World)) {
    act(&World::new());
    let database = Cluster::shared().database();
    act(&World::at(&database.url()));
}

fn held(world: &World, resource: &str) -> Value {
    world.json(["ls", resource])["held"][0].clone()
}

/// Returns the audit of a resource, oldest entry first.
fn audit(world: &World, resource: &str) -> Vec<Value> {
    let audit = world.json(["audit", "--resource", resource]);
    audit["entries"].as_array().unwrap().clone()
}

#[test]
fn an_agent_changes_no_lease_that_it_did_not_take_whatever_owner_it_names() {
    on_both(|world| {
        let id = world.lock(["prod=upgradeable", "--owner", "ana", "--ttl", "600s"]);
        let before = held(world, "prod");
        for act in ["release", "renew", "upgrade", "downgrade"] {
            for named in [&[][..], &["--owner", "ana"]] {
                let refused = call(world, ONE, &[&[act, &id], named].concat());
                assert_eq!(code(&refused), 77, "{act} {named:?}: {refused:?}");
                assert!(text(&refused.stderr).contains(ONE_OWNER), "{refused:?}");
            }
            let mut named = under(world, ONE);
            named.env("TENURE_OWNER", "ana").args([act, &id]);
            assert_eq!(code(&named.output().unwrap()), 77, "{act}");
        }
        let by_name = call(world, ONE, &["release", "prod", "--owner", "ana"]);
        assert_eq!(code(&by_name), 77, "{by_name:?}");
        assert_eq!(held(world, "prod"), before, "nothing has changed");
        // The agent cannot downgrade the lease once it is upgraded, either.
        assert_eq!(code(&world.call(["upgrade", &id])), 0);
        assert_eq!(code(&call(world, ONE, &["downgrade", &id])), 77);
    });
}

#[test]
fn a_key_gives_an_agent_no_lease_that_it_did_not_take() {
    on_both(|world| {
        let lock = ["k", "--ttl", "1s", "--key", "one", "--owner", "ana"];
        let id = world.lock(lock);
        let again = |session: &str| call(world, session, &[&["lock"], &lock[..]].concat());
        assert_eq!(code(&again(ONE)), 77);
        until("its time is over", || {
            held(world, "k")["state"] == "expired"
        });
        let before = held(world, "k");
        assert_eq!(code(&again(ONE)), 77);
        assert_eq!(held(world, "k"), before, "it got no new time");
        // The owner who took the lease gets it again under the key.
        assert_eq!(world.lock(lock), id);
    });
}

#[test]
fn the_audit_names_the_agent_whatever_owner_it_names_and_the_owner_whose_it_was() {
    on_both(|world| {
        let locked = call(world, ONE, &["lock", "prod=upgradeable", "--owner", "ana"]);
        assert_eq!(code(&locked), 0, "{locked:?}");
        let id = text(&locked.stdout).trim().to_owned();
        let lease = held(world, "prod");
        assert_eq!(
            (&lease["owner"], &lease["agent"]),
            (&json!("ana"), &json!(ONE_OWNER))
        );
        // Another agent may not change it, but its own agent may.
        assert_eq!(code(&call(world, OTHER, &["release", &id])), 77);
        for act in ["renew", "upgrade", "downgrade", "release"] {
            let done = call(world, ONE, &[act, &id, "--owner", "ana"]);
            assert_eq!(code(&done), 0, "{act}: {done:?}");
        }
        let entries = audit(world, "prod");
        let actions: Vec<&Value> = entries.iter().map(|entry| &entry["action"]).collect();
        assert_eq!(actions, ["acquire", "upgrade", "downgrade", "release"]);
        for entry in &entries {
            assert_eq!(
                (&entry["owner"], &entry["actor"]),
                (&json!("ana"), &json!(ONE_OWNER)),
                "{entry}"
            );
        }
        // A person may end any lease whose id is known, and the audit tells who ended it.
        let id = world.lock(["prod", "--owner", "bo"]);
        assert_eq!(code(&world.call(["release", &id])), 0);
        let entry = audit(world, "prod").pop().unwrap();
        assert_eq!(
            (&entry["action"], &entry["owner"]),
            (&json!("release"), &json!("bo"))
        );
        let actor = entry["actor"].as_str().unwrap();
        assert!(actor.starts_with("ana@"), "{entry}");
    });
}

#[test]
fn a_waiter_is_who_asked_when_another_gives_it_the_lock() {
    on_both(|world| {
        let id = world.lock(["q", "--owner", "bo"]);
        let mut waiting = under(world, ONE);
        waiting.args(["lock", "q", "--owner", "ana", "--wait", "30s", "--json"]);
        waiting.stdout(std::process::Stdio::piped());
        let waiting = waiting.spawn().unwrap();
        world.until_waiting(1, waiting.id());
        assert_eq!(code(&world.call(["release", &id])), 0);
        let locked = waiting.wait_with_output().unwrap();
        assert_eq!(parse(&locked.stdout)["leases"][0]["agent"], ONE_OWNER);
        let entries = audit(world, "q");
        let entry = entries.iter().rfind(|entry| entry["action"] == "acquire");
        let entry = entry.unwrap();
        assert_eq!(
            (&entry["owner"], &entry["actor"]),
            (&json!("ana"), &json!(ONE_OWNER)),
            "{entry}"
        );
    });
}

#[test]
fn a_denial_that_names_the_lease_of_an_edit_does_not_help_to_end_it() {
    let database = Cluster::shared().database();
    for world in [World::new(), World::at(&database.url())] {
        let place = Place::of(world);
        place.settings(GUARDS);
        assert_eq!(place.edit(ONE, "a.rs"), "");
        let input = json!({"tool_name": "Edit", "tool_input": {"file_path": place.path("a.rs")}});
        let denied = reason(&place.hook(OTHER, "PreToolUse", input));
        let id = place.world.json(["ls", "file:"])["held"][0]["lease"].clone();
        let id = id.as_str().unwrap();
        assert!(denied.contains(id), "{denied}");
        for named in [&[][..], &["--owner", ONE_OWNER]] {
            let refused = call(&place.world, OTHER, &[&["release", id], named].concat());
            assert_eq!(code(&refused), 77, "{refused:?}");
        }
        assert_ne!(place.edit(OTHER, "a.rs"), "", "it is held still");
        // The agent that took it may end it.
        let released = call(&place.world, ONE, &["release", id]);
        assert_eq!(code(&released), 0, "{released:?}");
        assert_eq!(place.edit(OTHER, "a.rs"), "");
    }
}
