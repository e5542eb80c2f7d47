//! The edit guard after hooks that were killed, while leases are broken, and while people take
//! their time.

use std::time::SystemTime;

use serde_json::{Value, json};
use tenure_testkit::postgres::{Cluster, Database};

use crate::place::{GUARDS, ONE, OTHER, Place, reason};
use crate::world::{World, code, text, until};

const OTHER_OWNER: &str = "agent:claude-bbbbbbbbbbbb";

fn guarded(world: World) -> Place {
    let place = Place::of(world);
    place.settings(GUARDS);
    place
}

fn on_server() -> (Place, Database) {
    let database = Cluster::shared().database();
    (guarded(World::at(&database.url())), database)
}

/// Runs the test with guards on a store of each kind.
fn on_both(act: impl Fn(&Place)) {
    act(&guarded(World::new()));
    let (place, _database) = on_server();
    act(&place);
}

fn input(place: &Place, file: &str) -> Value {
    json!({"tool_name": "Edit", "tool_input": {"file_path": place.path(file)}})
}

fn lease(place: &Place) -> Value {
    place.world.json(["ls", "file:"])["held"][0].clone()
}

/// Returns the seconds until the one lease on a file is over.
fn seconds_left(place: &Place) -> i64 {
    let expires = lease(place)["expires_at"].as_str().unwrap().to_owned();
    let expires: tenure::Timestamp = expires.parse().unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    expires.as_millis() / 1000 - i64::try_from(now.unwrap().as_secs()).unwrap()
}

#[test]
fn what_a_killed_hook_left_in_its_hand_is_taken_over_by_the_next_hook_of_its_agent() {
    let (place, database) = on_server();
    assert_eq!(place.edit(ONE, "a.rs"), "");
    // The row looks as after a hook that was killed before it bound its lease.
    let in_hand = "UPDATE tenure.dal_locks SET process = 'killed', ttl_ms = 30000, \
                   lease_expires = clock_timestamp() + interval '30 s'";
    database.psql(in_hand);
    let before = lease(&place);
    assert_eq!(place.edit(ONE, "a.rs"), "", "it is its own");
    assert!(seconds_left(&place) > 300, "it has its full time");
    assert_ne!(lease(&place)["lease"], before["lease"]);
    assert_eq!(lease(&place)["token"], before["token"]);
    assert_ne!(place.edit(OTHER, "a.rs"), "");
    // The killed hook is too late with everything it does by the id it knows.
    let old = before["lease"].as_str().unwrap();
    assert_eq!(code(&place.world.call(["release", old])), 77);
    assert_ne!(place.edit(OTHER, "a.rs"), "");
    place.hook(ONE, "SessionEnd", json!({}));
    assert_eq!(place.edit(OTHER, "a.rs"), "");
    let doctor = place.world.call(["doctor"]);
    assert_eq!(code(&doctor), 0, "{}", text(&doctor.stdout));
}

#[test]
fn an_agent_whose_lease_is_being_broken_is_denied_with_who_broke_it_and_why() {
    on_both(|place| {
        until("it was asked within the ten seconds of a break", || {
            assert_eq!(place.edit(ONE, "a.rs"), "");
            let id = lease(place)["lease"].as_str().unwrap().to_owned();
            let broken = ["break", &id, "--reason", "wrong branch", "--yes"];
            assert_eq!(code(&place.world.call(broken)), 0);
            let denied = place.send(
                &place
                    .body(ONE, "PreToolUse", input(place, "a.rs"))
                    .to_string(),
            );
            let edited = place.send(
                &place
                    .body(ONE, "PostToolUse", input(place, "a.rs"))
                    .to_string(),
            );
            if lease(place)["state"] != "revoking" {
                return false;
            }
            let edited = place.answer(&edited);
            let told = &edited["hookSpecificOutput"]["additionalContext"];
            for said in [
                reason(&place.answer(&denied)),
                told.as_str().unwrap().to_owned(),
            ] {
                for part in ["a.rs", "broken by ana@", "wrong branch"] {
                    assert!(said.contains(part), "{part}: {said}");
                }
            }
            true
        });
    });
}

#[test]
fn while_a_person_decides_the_file_is_held_and_an_edit_that_lost_it_is_told() {
    on_both(|place| {
        let hook = |session: &str, name: &str| place.hook(session, name, input(place, "a.rs"));
        assert_eq!(place.edit(ONE, "a.rs"), "");
        assert!(seconds_left(place) <= 600);
        assert_eq!(hook(ONE, "PermissionRequest"), Value::Null);
        assert!(seconds_left(place) > 3000, "a person takes their time");
        assert_eq!(hook(ONE, "PostToolUse"), Value::Null);
        assert!(seconds_left(place) <= 600, "ten minutes after the edit");
        // The lease is over before the person has decided, and another agent edits the file.
        assert_eq!(hook(ONE, "PreToolUse"), Value::Null);
        let id = lease(place)["lease"].as_str().unwrap().to_owned();
        assert_eq!(code(&place.world.call(["release", &id])), 0);
        assert_eq!(place.edit(OTHER, "a.rs"), "");
        let asked = &hook(ONE, "PermissionRequest")["hookSpecificOutput"];
        assert_eq!(asked["hookEventName"], "PermissionRequest");
        assert_eq!(asked["decision"]["behavior"], "deny");
        let message = asked["decision"]["message"].as_str().unwrap();
        assert!(message.contains(OTHER_OWNER), "{message}");
        let edited = &hook(ONE, "PostToolUse")["hookSpecificOutput"];
        let told = edited["additionalContext"].as_str().unwrap();
        assert!(
            told.contains("a.rs") && told.contains(OTHER_OWNER),
            "{told}"
        );
        assert!(place.edit(ONE, "a.rs").contains(OTHER_OWNER));
    });
}
