//! No statement of the store scans a table: the server's log shows the plan of each statement of
//! every command.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Stdio;

use tenure_testkit::postgres::{Cluster, Settings};
use tenure_testkit::tell;

use crate::holder::Holder;
use crate::process::{Process, held};
use crate::scene::Scene;
use crate::world::{World, code, until};

/// The scans that a plan may have: a part of the statement, the table, and the reason.
const ALLOWED: [(&str, &str, &str); 5] = [
    ("", "store", "it has one row"),
    ("", "settings", "it has one row"),
    ("", "advisory_epoch", "it has one row"),
    (
        "DELETE FROM tenure.processes",
        "processes",
        "it has a row for each process at work, and this deletes the others",
    ),
    (
        "SELECT count(*), count(*) FILTER",
        "dal_locks",
        "doctor counts what is held, for a person",
    ),
];

/// Starts a cluster whose log has the plan of every statement, including those in functions.
fn explaining() -> Cluster {
    let settings = Settings::default()
        .parameter("session_preload_libraries", "auto_explain")
        .parameter("auto_explain.log_min_duration", 0)
        .parameter("auto_explain.log_nested_statements", "on");
    Cluster::with(&settings)
}

/// Runs every command of the contract that asks the store.
fn use_everything(world: &World) {
    let done = |arguments: &[&str]| {
        let output = world.call(arguments.iter().copied());
        assert_eq!(code(&output), 0, "{arguments:?}: {output:?}");
    };
    let mut holder = Holder::start(world, ["--purpose", "why", "x", "y=read", "z=upgradeable"]);
    let lines = ["one", "two"].map(|owner| Process::in_line(world, "x", owner));
    for listing in [
        &["ls"][..],
        &["ls", "x"],
        &["ls", "--owner", "one"],
        &["status"],
    ] {
        done(listing);
    }
    holder.let_go();
    assert_eq!(holder.code(), 0);
    for waiter in lines {
        waiter.token();
    }
    let lease = world.lock(["u=upgradeable", "--key", "k", "--ttl", "60s"]);
    assert_eq!(
        world.lock(["u=upgradeable", "--key", "k", "--ttl", "60s"]),
        lease
    );
    for command in ["renew", "upgrade", "downgrade", "release"] {
        done(&[command, &lease]);
    }
    let set = world.lock(["a", "b", "c=read", "--ttl", "1s"]);
    assert_eq!(set.lines().count(), 3);
    until("they are stale", || {
        held(world).iter().all(|lease| lease["state"] == "expired")
    });
    done(&["recover", "--dry-run"]);
    done(&["recover"]);
    let broken = world.lock(["d"]);
    let token = world.json(["ls", "d"])["held"][0]["token"].to_string();
    done(&["check", "d", &token]);
    done(&["break", &broken, "--reason", "why", "--yes"]);
    for audit in [
        &["audit"][..],
        &["audit", "--resource", "x"],
        &["audit", "--since", "1h"],
    ] {
        done(audit);
    }
    for event in [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ] {
        hook(world, event);
        done(&["agent", "ls"]);
    }
    done(&["agent", "watch", "--once"]);
    done(&["doctor"]);
}

/// Runs a hook of a coding agent, with the guard of edits.
fn hook(world: &World, event: &str) {
    std::fs::write(world.path("tenure.toml"), "[guard]\nedits = true\n").unwrap();
    let body = serde_json::json!({
        "hook_event_name": event,
        "session_id": "0b2f6c1e-0000-4000-8000-aaaaaaaaaaaa",
        "cwd": world.path(""),
        "prompt": "go",
        "tool_name": "Edit",
        "tool_input": {"file_path": world.path("a.rs")},
    });
    let mut command = world.tenure();
    command.args(["agent", "hook"]).stdin(Stdio::piped());
    let mut hook = command.spawn().unwrap();
    let mut stdin = hook.stdin.take().unwrap();
    stdin.write_all(body.to_string().as_bytes()).unwrap();
    drop(stdin);
    assert!(hook.wait().unwrap().success());
}

/// Returns the plans in a log, by their statements.
fn plans(log: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut plans = BTreeMap::<String, BTreeSet<String>>::new();
    for entry in log.split(" plan:\n").skip(1) {
        let lines = entry.lines().take_while(|line| line.starts_with('\t'));
        let lines: Vec<&str> = lines.map(str::trim).collect();
        let text = lines.join("\n");
        let is_plan = |line: &str| line.contains("(cost=");
        let at = lines.iter().position(|line| is_plan(line)).unwrap_or(0);
        plans.entry(lines[..at].join(" ")).or_default().insert(text);
    }
    plans
}

#[test]
fn no_statement_scans_a_table() {
    let cluster = explaining();
    let scene = Scene::on(&cluster);
    use_everything(&scene.world);
    let tables = "select string_agg(tablename, ' ') from pg_tables where schemaname = 'tenure'";
    let tables = scene.database.psql(tables);
    let tables: Vec<&str> = tables.split(' ').collect();
    assert!(
        tables.contains(&"dal_locks") && tables.contains(&"audit"),
        "{tables:?}"
    );
    let (mut ours, mut scans) = (0, Vec::new());
    for (statement, plans) in plans(&cluster.log()) {
        ours += usize::from(statement.contains("tenure."));
        for plan in plans {
            let lines = plan
                .lines()
                .filter_map(|line| line.split_once("Seq Scan on "));
            let mut scanned = lines.filter_map(|(_, table)| table.split(' ').next());
            let is_scan = |table| {
                let allowed = |(part, allowed, _): &(&str, &str, &str)| {
                    table == *allowed && statement.contains(part)
                };
                tables.contains(&table) && !ALLOWED.iter().any(allowed)
            };
            if scanned.any(is_scan) {
                scans.push(plan);
            }
        }
    }
    tell(format!(
        "plans of {ours} statements of the store on PostgreSQL"
    ));
    assert!(ours >= 30, "{ours}");
    assert!(scans.is_empty(), "{}", scans.join("\n\n"));
}
