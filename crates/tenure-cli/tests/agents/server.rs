//! PostgreSQL, with psql as the other program.

use serde_json::json;
use tenure_testkit::postgres::{Cluster, Database, Proxy, Settings};

use crate::place::{GUARDS, ONE, ONE_OWNER, OTHER, Place};
use crate::world::{World, code, text, until};

fn place() -> (Place, Database) {
    let database = Cluster::shared().database();
    let place = Place::of(World::at(&database.url()));
    (place, database)
}

#[test]
fn a_hook_takes_the_advisory_lock_of_its_agent_and_psql_meets_it() {
    let (place, database) = place();
    place.hook(ONE, "SessionStart", json!({}));
    let mut psql = database.session();
    psql.run("SELECT pg_advisory_lock(1, 1)");
    let body = place
        .body(ONE, "UserPromptSubmit", json!({"prompt": "first"}))
        .to_string();
    place.with_default_wait();
    let output = place.send(&body);
    assert_eq!(code(&output), 0);
    assert!(
        text(&output.stderr).contains("the event waits"),
        "{output:?}"
    );
    assert_eq!(place.agent(ONE)["commands"], 0);
    place.settings("");
    // The hook of another agent is not held up.
    place.hook(OTHER, "UserPromptSubmit", json!({"prompt": "go"}));
    assert_eq!(place.agent(OTHER)["commands"], 1);
    let cycle = place.watch();
    assert!(cycle["skipped"].as_u64().unwrap() >= 1, "{cycle}");
    psql.run("SELECT pg_advisory_unlock(1, 1)");
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "second"}));
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["commands"], &agent["task"]),
        (&json!(2), &json!("second"))
    );
    // The hook has given the lock back.
    assert_eq!(psql.run("SELECT pg_try_advisory_lock(1, 1)"), "t");
}

#[test]
fn agents_are_read_without_a_lock_while_a_hook_has_theirs() {
    let settings = Settings::default()
        .parameter("log_statement", "all")
        .parameter("log_line_prefix", "%a: ");
    let cluster = Cluster::with(&settings);
    let database = cluster.database();
    let place = Place::of(World::at(&database.url()));
    place.hook(ONE, "SessionStart", json!({}));
    // Counts the advisory locks that our commands asked for, even if they gave up at once.
    let asked = || {
        let log = cluster.log();
        let ours = log.split("\ntenure").skip(1);
        ours.filter(|entry| {
            entry
                .split("\npsql")
                .next()
                .is_some_and(|own| own.contains("advisory_lock($1"))
        })
        .count()
    };
    let by_the_hook = asked();
    assert!(by_the_hook > 0, "{}", cluster.log());
    let mut psql = database.session();
    psql.run("SELECT pg_advisory_lock(1, 1)");
    let began = std::time::Instant::now();
    assert_eq!(place.agent(ONE)["commands"], 0);
    let status = place.world.call(["status"]);
    assert_eq!(code(&status), 0, "{status:?}");
    assert!(
        began.elapsed() < std::time::Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(asked(), by_the_hook, "{}", cluster.log());
    psql.run("SELECT pg_advisory_unlock(1, 1)");
}

#[test]
fn two_hooks_of_one_agent_at_once_are_processed_one_after_the_other() {
    let (place, database) = place();
    place.hook(ONE, "SessionStart", json!({}));
    let (mut psql, mut writer) = (database.session(), database.session());
    psql.run("SELECT pg_advisory_lock(1, 1)");
    let begin = |prompt: &str| {
        let body = place.body(ONE, "UserPromptSubmit", json!({"prompt": prompt}));
        place.begin(&body.to_string(), &mut place.world.tenure())
    };
    let hooks = [begin("a"), begin("b")];
    // Counts the locks (1, 1) that hooks hold, and those that they wait for.
    let locks = || {
        let hooks =
            "pid IN (SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tenure%')";
        let count = format!(
            "SELECT count(*) FILTER (WHERE granted), count(*) FILTER (WHERE NOT granted) FROM pg_locks \
             WHERE locktype = 'advisory' AND classid = 1 AND objid = 1 AND objsubid = 2 AND {hooks} \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        database.psql(&count)
    };
    until("both wait for the lock", || locks() == "0|2");
    assert_eq!(place.agent(ONE)["commands"], 0, "neither has begun");
    // The hook that gets the lock first is stopped in the middle of its change; the second waits
    // for the lock meanwhile.
    writer.run("BEGIN");
    writer.run(
        "SELECT count(*) FROM (SELECT FROM tenure.records WHERE kind = 'agent' FOR UPDATE) AS r",
    );
    psql.run("SELECT pg_advisory_unlock(1, 1)");
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND pid <> pg_backend_pid() AND wait_event_type = 'Lock' AND query LIKE '%tenure.records%'";
    until("one is at its change", || {
        locks() == "1|1" && database.psql(blocked) == "1"
    });
    writer.run("COMMIT");
    for hook in hooks {
        assert_eq!(code(&hook.wait_with_output().unwrap()), 0);
    }
    place.watch();
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["commands"], &agent["turns"]),
        (&json!(2), &json!(2))
    );
    let open =
        "SELECT count(*) FROM tenure.records WHERE kind = 'agent_command' AND state = 'RUNNING'";
    assert_eq!(
        database.psql(open),
        "1",
        "the later one completed the earlier one's command"
    );
}

#[test]
fn agents_guards_claims_and_stops_work_on_a_server() {
    let (place, _database) = place();
    place.settings(GUARDS);
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    assert_eq!(place.edit(ONE, "a.rs"), "");
    assert!(place.edit(OTHER, "a.rs").contains(ONE_OWNER));
    place
        .world
        .lock(["deploy", "--ttl", "60s", "--owner", ONE_OWNER]);
    assert_eq!(place.agent(ONE)["holds"].as_array().unwrap().len(), 2);
    place.hook(ONE, "Stop", json!({"last_assistant_message": "done"}));
    let mut stopped = 0;
    until("the stop is due", || {
        stopped += place.watch()["stopped"].as_u64().unwrap();
        stopped == 1
    });
    assert_eq!(place.agent(ONE)["state"], "idle");
    place.hook(ONE, "SessionEnd", json!({}));
    let agent = place.agent(ONE);
    assert_eq!(
        (&agent["state"], &agent["holds"]),
        (&json!("done"), &json!([]))
    );
    assert_eq!(place.edit(OTHER, "a.rs"), "");
}

#[test]
fn a_stop_releases_the_files_of_its_turn_on_a_server() {
    let (place, _database) = place();
    place.settings("[guard]\nedits = true\nedits_until = \"turn\"\n");
    assert_eq!(place.edit(ONE, "a.rs"), "");
    assert!(place.edit(OTHER, "a.rs").contains(ONE_OWNER));
    place.hook(ONE, "Stop", json!({"last_assistant_message": "done"}));
    assert_eq!(place.edit(OTHER, "a.rs"), "");
}

#[test]
fn a_hook_does_not_wait_longer_than_it_may_for_a_server_that_does_not_answer() {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let place = Place::of(World::at(&proxy.url_through(&database)));
    place.hook(ONE, "SessionStart", json!({}));
    std::fs::write(
        place.path("tenure.toml"),
        "[agents]\nhook_wait = \"500ms\"\n",
    )
    .unwrap();
    proxy.pause();
    let body = place.body(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
    let began = std::time::Instant::now();
    let output = place.send(&body.to_string());
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(3), "{took:?}");
    assert!(
        text(&output.stderr).contains("the event waits"),
        "{output:?}"
    );
    proxy.resume();
    place.settings("");
    assert_eq!(place.watch()["spooled"], 1);
    assert_eq!(place.agent(ONE)["commands"], 1);
}

#[test]
fn a_watcher_lives_through_an_outage_of_its_server() {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let place = Place::of(World::at(&proxy.url_through(&database)));
    let answered = || {
        place.hook(ONE, "UserPromptSubmit", json!({"prompt": "go"}));
        place.hook(ONE, "Stop", json!({"last_assistant_message": "done"}));
    };
    answered();
    let mut watcher = place.world.tenure();
    watcher.args(["agent", "watch", "--every", "100ms"]);
    let told = std::fs::File::create(place.path("told")).unwrap();
    let did = std::fs::File::create(place.path("did")).unwrap();
    let mut watcher = watcher.stderr(told).stdout(did).spawn().unwrap();
    let stopped = || {
        let did = std::fs::read_to_string(place.path("did")).unwrap();
        did.matches("1 stopped").count()
    };
    until("it is at work", || stopped() == 1);
    proxy.refuse();
    proxy.cut();
    until("it tells of the outage", || {
        let told = std::fs::read_to_string(place.path("told")).unwrap();
        told.contains("trying again in 100ms")
    });
    proxy.admit();
    answered();
    until("it goes on", || stopped() == 2);
    assert!(watcher.try_wait().unwrap().is_none(), "it is still there");
    crate::world::signal(watcher.id(), libc::SIGTERM);
    assert!(watcher.wait().unwrap().success());
}

#[test]
fn a_prompt_that_postgresql_has_no_text_for_breaks_no_view() {
    let (place, database) = place();
    place.hook(ONE, "UserPromptSubmit", json!({"prompt": "a\u{0}b"}));
    assert_eq!(database.psql("SELECT text FROM tenure.turns"), "a\u{fffd}b");
}

/// Returns the connections and round trips of an act.
fn asked(proxy: &Proxy, act: impl FnOnce()) -> (usize, usize) {
    let answered = proxy.answered();
    let before = (answered.connections(), answered.round_trips());
    act();
    (
        answered.connections() - before.0,
        answered.round_trips() - before.1,
    )
}

#[test]
fn a_hook_has_two_connections_and_at_most_twice_the_round_trips_of_a_run() {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let place = Place::of(World::at(&proxy.url_through(&database)));
    let run = || assert_eq!(code(&place.world.call(["run", "x", "--", "true"])), 0);
    let hook = |name: &str| {
        let more = json!({"prompt": "go", "tool_name": "Read", "tool_input": {"file_path": "a"}});
        place.hook(ONE, name, more);
    };
    // The first calls make tables and records.
    run();
    hook("SessionStart");
    let (_, of_run) = asked(&proxy, run);
    let edit = || assert_eq!(place.edit(ONE, "a.rs"), "");
    let check = |name: &str, asked: (usize, usize), round_trips_max: usize| {
        let (connections, round_trips) = asked;
        tenure_testkit::tell(format!("{name}: {round_trips} round trips, a run {of_run}"));
        assert_eq!(connections, 2, "{name}");
        assert!(
            round_trips <= round_trips_max,
            "{name}: {round_trips}, a run {of_run}"
        );
    };
    for name in [
        "SessionStart",
        "Notification",
        "PreToolUse",
        "UserPromptSubmit",
        "Stop",
    ] {
        check(name, asked(&proxy, || hook(name)), 2 * of_run);
    }
    // A guarded edit also looks up, takes and binds a lease. The next one renews it.
    place.settings("[guard]\nedits = true\n");
    for name in ["a guarded edit", "the next edit of the file"] {
        check(name, asked(&proxy, edit), 5 * of_run / 2);
    }
}

#[test]
fn a_list_of_agents_asks_as_often_however_many_there_are() {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let place = Place::of(World::at(&proxy.url_through(&database)));
    let list = || drop(place.agents());
    let begin = |number: usize| {
        let session = format!("00000000-0000-4000-8000-{number:012}");
        place.hook(&session, "SessionStart", json!({}));
        let owner = format!("agent:claude-{number:012}");
        place
            .world
            .lock([format!("l{number}").as_str(), "--owner", &owner]);
    };
    begin(0);
    let (_, of_one) = asked(&proxy, list);
    (1..6).for_each(begin);
    let (_, of_six) = asked(&proxy, list);
    assert_eq!(of_six, of_one);
    let agents = place.agents();
    assert!(
        agents
            .iter()
            .all(|agent| agent["holds"].as_array().unwrap().len() == 1),
        "{agents:?}"
    );
}
