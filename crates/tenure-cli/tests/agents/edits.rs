//! The edit guard while hooks are killed, race and come late, leases are broken, and people take their time.

use std::collections::HashMap;
use std::process::{Child, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tenure_testkit::postgres::{Cluster, Database};
use tenure_testkit::{campaign_end, tell};

use crate::place::{GUARDS, ONE, OTHER, Place, reason};
use crate::world::{World, code, text, until};

const OTHER_OWNER: &str = "agent:claude-bbbbbbbbbbbb";
const THIRD: &str = "0b2f6c1e-0000-4000-8000-cccccccccccc";

fn guarded(world: World) -> Place {
    let place = Place::of(world);
    place.settings(GUARDS);
    place
}

fn on_server() -> (Place, Database) {
    let database = Cluster::shared().database();
    (guarded(World::at(&database.url())), database)
}

/// Does something with guards on a store of each kind.
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

/// In how many seconds the one lease on a file is over.
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
    // The row as a hook leaves it that is killed before it binds what it took.
    let in_hand = "UPDATE tenure.dal_locks SET process = 'killed', ttl_ms = 30000, \
                   lease_expires = clock_timestamp() + interval '30 s'";
    database.psql(in_hand);
    let before = lease(&place);
    assert_eq!(place.edit(ONE, "a.rs"), "", "it is its own");
    assert!(seconds_left(&place) > 300, "it has its full time");
    assert_ne!(lease(&place)["lease"], before["lease"]);
    assert_eq!(lease(&place)["token"], before["token"]);
    assert_ne!(place.edit(OTHER, "a.rs"), "");
    // Whatever the killed one does by the id that it knows is too late.
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
        // It is over before the person has decided, and another edits the file.
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

#[test]
fn of_agents_whose_hooks_are_killed_and_race_never_two_may_edit_one_file() {
    Campaign::on(&guarded(World::new()), "sqlite");
}

#[test]
fn of_agents_whose_hooks_are_killed_and_race_on_a_server_never_two_may_edit_one_file() {
    let (place, _database) = on_server();
    Campaign::on(&place, "postgres");
}

/// Agents that edit the same files. The checker knows who was told that it may edit what, and until when: an agent gives its
/// files up here before it sends the event that ends its session.
struct Campaign<'a> {
    place: &'a Place,
    editors: Mutex<HashMap<&'static str, &'static str>>,
    granted: AtomicUsize,
    denied: AtomicUsize,
    killed: AtomicUsize,
}

const FILES: [&str; 2] = ["a.rs", "b.rs"];

impl Campaign<'_> {
    fn on(place: &Place, name: &str) {
        let campaign = Campaign {
            place,
            editors: Mutex::default(),
            granted: AtomicUsize::default(),
            denied: AtomicUsize::default(),
            killed: AtomicUsize::default(),
        };
        let seed = u64::from(std::process::id()) ^ 0x5DEE_CE66;
        let end = campaign_end();
        std::thread::scope(|scope| {
            for (number, session) in [ONE, OTHER, THIRD].into_iter().enumerate() {
                let (campaign, seed) = (&campaign, seed + number as u64);
                scope.spawn(move || campaign.work(session, Dice(seed), end));
            }
        });
        let counted = [&campaign.granted, &campaign.denied, &campaign.killed];
        let counted = counted.map(|count| count.load(Ordering::Relaxed));
        let [granted, denied, killed] = counted;
        tell(format!(
            "edits on {name}: {granted} granted, {denied} denied, {killed} killed, with seed {seed}"
        ));
        assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
    }

    fn work(&self, session: &'static str, mut dice: Dice, end: Instant) {
        let mut usual = Duration::from_millis(100);
        while Instant::now() < end {
            let file = FILES[dice.below(2)];
            let began = Instant::now();
            let mut hooks: Vec<Child> = (0..=dice.below(3))
                .map(|_| self.begin(session, file))
                .collect();
            if dice.below(3) == 0 {
                // At a random moment of its life.
                let moment = dice.below(1000) as f64 / 1000.0;
                std::thread::sleep(usual.mul_f64(moment));
                let mut killed = hooks.swap_remove(0);
                killed.kill().unwrap();
                killed.wait().unwrap();
                self.killed.fetch_add(1, Ordering::Relaxed);
            }
            for hook in hooks {
                self.note(session, file, &hook.wait_with_output().unwrap());
                usual = (usual + began.elapsed()) / 2;
            }
            if dice.below(2) == 0 {
                self.give_up(session);
            }
        }
        self.give_up(session);
    }

    fn begin(&self, session: &str, file: &str) -> Child {
        let body = self
            .place
            .body(session, "PreToolUse", input(self.place, file));
        self.place
            .begin(&body.to_string(), &mut self.place.world.tenure())
    }

    fn note(&self, session: &'static str, file: &'static str, hook: &Output) {
        assert_eq!(text(&hook.stderr), "", "an edit goes on without a lease");
        if !reason(&self.place.answer(hook)).is_empty() {
            self.denied.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.granted.fetch_add(1, Ordering::Relaxed);
        let before = self.editors.lock().unwrap().insert(file, session);
        assert!(
            before.is_none_or(|before| before == session),
            "{before:?} and {session} edit {file}"
        );
    }

    fn give_up(&self, session: &'static str) {
        let mut editors = self.editors.lock().unwrap();
        editors.retain(|_, editor| *editor != session);
        drop(editors);
        self.place.hook(session, "SessionEnd", json!({}));
    }
}

/// Chance that a seed decides (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as usize % bound
    }
}
