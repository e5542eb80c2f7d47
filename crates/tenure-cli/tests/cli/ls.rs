//! `tenure ls`.

use std::process::Command;

use serde_json::Value;

use crate::holder::Holder;
use crate::terminal::Terminal;
use crate::world::{World, code, json, state, text, until};

fn resources(world: &World, arguments: &[&str]) -> Vec<String> {
    let listing = listing(world, arguments);
    let held = listing["held"].as_array().unwrap();
    held.iter()
        .map(|lease| lease["resource"].as_str().unwrap().to_owned())
        .collect()
}

fn listing(world: &World, arguments: &[&str]) -> Value {
    let output = world
        .tenure()
        .args(["ls", "--json"])
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    json(&output.stdout)
}

#[test]
fn nothing_held_is_said_to_people_and_an_empty_list_to_programs() {
    for world in World::each() {
        assert!(world.is_free("x"));
        let output = world.tenure().arg("ls").output().unwrap();
        assert_eq!(code(&output), 0);
        assert!(output.stdout.is_empty());
        assert_eq!(text(&output.stderr), "tenure: nothing is held\n");
        let listing = listing(&world, &[]);
        let fields: Vec<_> = listing
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(fields, ["held", "next", "waiting", "waiting_next"]);
        assert_eq!(listing["held"], Value::Array(vec![]));
        let waiting = match world.is_file() {
            true => Value::Null,
            false => Value::Array(vec![]),
        };
        assert_eq!(listing["waiting"], waiting, "kernel locks cannot know");
    }
}

#[test]
fn looking_at_a_store_that_is_not_there_yet_says_so_and_does_not_make_it() {
    let world = World::new();
    let output = world.call(["ls"]);
    assert_eq!(code(&output), 0);
    let said = text(&output.stderr);
    assert!(
        said.contains("there is no store at ") && said.contains("store/tenure.db"),
        "{said}"
    );
    assert_eq!(listing(&world, &[])["held"], Value::Array(vec![]));
    assert!(!world.path("store").exists());
}

#[test]
fn a_lease_that_ends_is_shown_with_its_id_and_its_end() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1h", "--purpose", "deploy"]);
    let said = text(&world.call(["ls"]).stdout);
    let headings: Vec<_> = said.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        headings.join(" "),
        "RESOURCE MODE OWNER LEASE PID AGE ENDS PURPOSE COMMAND"
    );
    let row = said.lines().nth(1).unwrap();
    for part in [
        lease.as_str(),
        " - ",
        " in 59m ",
        "deploy",
        " tenure lock x --ttl 1h",
    ] {
        assert!(row.contains(part), "{part:?} is not in {row:?}");
    }
    assert!(!row.contains("run is gone"), "it never had one: {row}");
}

#[test]
fn an_expired_lease_nobody_took_over_is_shown_as_such() {
    let world = World::new();
    let lease = world.lock(["x", "--ttl", "1s"]);
    until("it is expired", || {
        listing(&world, &[])["held"][0]["state"] == "expired"
    });
    let said = text(&world.call(["ls"]).stdout);
    assert!(said.contains("STATE") && said.contains("expired"), "{said}");
    assert!(said.contains(" ago") && said.contains(&lease), "{said}");
}

#[test]
fn who_waits_is_shown_with_place_reason_and_who_blocks() {
    let world = World::new();
    let lease = world.lock(["x", "--owner", "ana"]);
    let mut waiters = Vec::new();
    for (number, owner) in ["bob", "eve"].into_iter().enumerate() {
        let mut command = world.tenure();
        command.args(["run", "--owner", owner, "x", "--", "true"]);
        let waiter = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        world.until_waiting(number + 1, waiter.id());
        waiters.push(waiter);
    }
    let page = listing(&world, &[]);
    let fields: Vec<_> = page["waiting"][0].as_object().unwrap().keys().collect();
    let contract = "waiter resource mode owner since deadline position reason blocked_by";
    assert_eq!(fields, contract.split(' ').collect::<Vec<_>>());
    let of = |owner: &str| {
        let waiting = page["waiting"].as_array().unwrap();
        waiting.iter().find(|w| w["owner"] == owner).unwrap()
    };
    assert_eq!(
        (&of("bob")["position"], &of("eve")["position"]),
        (&1.into(), &2.into())
    );
    assert_eq!(of("bob")["blocked_by"], serde_json::json!([lease]));
    assert_eq!(of("bob")["reason"], "held for write by ana");
    let said = text(&world.call(["ls"]).stdout);
    let line = format!(" of 10m 00s, place 1: held for write by ana (lease {lease})");
    assert!(
        said.contains("waiting: name:x (write) by bob for "),
        "{said}"
    );
    assert!(said.contains(&line), "{said}");
    assert!(
        said.contains("by eve") && said.contains("place 2: behind 1 other"),
        "{said}"
    );
    assert_eq!(code(&world.call(["release", &lease])), 0);
    for mut waiter in waiters {
        assert!(waiter.wait().unwrap().success());
    }
}

#[test]
fn a_filter_that_matches_nothing_is_no_claim_about_the_rest() {
    for world in World::each() {
        let _holder = Holder::start(&world, ["x"]);
        for filter in [&["y"][..], &["--owner", "nobody"]] {
            let output = world.tenure().arg("ls").args(filter).output().unwrap();
            assert_eq!(
                text(&output.stderr),
                "tenure: nothing that matches is held\n"
            );
        }
        let output = world.tenure().args(["ls", "--after", "x"]).output();
        assert_eq!(code(&output.unwrap()), 2, "that is no cursor");
    }
}

#[test]
fn a_command_that_outlived_its_run_is_told_apart() {
    for world in World::each() {
        let mut holder = Holder::start(&world, ["x"]);
        let outlived = || {
            let listed = world.tenure().arg("ls").output().unwrap();
            let refused = world.run(["--no-wait", "x", "--", "true"]);
            [text(&listed.stdout), text(&refused.stderr)]
                .map(|said| said.contains("(run not seen here: its command goes on, "))
        };
        assert_eq!(outlived(), [false, false]);
        holder.signal_run(libc::SIGKILL);
        holder.wait();
        assert_eq!(outlived(), [true, true]);
    }
}

const GONE: &str = "run is gone";

/// Returns the output of `ls` and of a refused `run` about a holder, seen from another PID
/// namespace or from this one.
fn said_of_holder(world: &World, inside: bool) -> String {
    let mut said = String::new();
    for arguments in [&["ls"][..], &["run", "--no-wait", "x", "--", "true"]] {
        let mut command = match inside {
            false => world.tenure(),
            true => {
                let mut command = Command::new("unshare");
                world.prepare(&mut command);
                command.args(["--pid", "--fork", "--mount-proc"]);
                command.arg(env!("CARGO_BIN_EXE_tenure"));
                command
            }
        };
        let output = command.args(arguments).output().unwrap();
        assert!(matches!(code(&output), 0 | 75), "{output:?}");
        said += &text(&output.stdout);
        said += &text(&output.stderr);
    }
    assert_eq!(said.matches("name:x").count(), 2, "{said}");
    said
}

#[test]
fn a_holder_that_is_not_in_this_pid_namespace_is_not_called_gone() {
    for world in World::each() {
        let _holder = Holder::start(&world, ["x"]);
        let said = said_of_holder(&world, true);
        assert!(!said.contains(GONE), "{said}");
    }
}

#[test]
fn a_holder_inside_another_pid_namespace_is_not_called_gone() {
    for world in World::each() {
        // The holder gets a process id that no process has here.
        let max = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
        let max: u32 = max.trim().parse().unwrap();
        let mut free = (1000..max - 100).rev();
        let free = free.find(|pid| state(*pid).is_none() && state(pid + 1).is_none());
        let script = format!(
            "echo {} >/proc/sys/kernel/ns_last_pid; \"$TENURE\" run x -- sh -c 'echo {}; exec cat >/dev/null'",
            free.unwrap() - 1,
            max + 1,
        );
        let mut command = Command::new("unshare");
        world.prepare(&mut command);
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", &script]);
        let _holder = Holder::from_command(command);
        let pid = &world.json(["ls"])["held"][0]["pid"];
        assert_eq!(pid, &free.unwrap(), "as it is called there");
        let said = said_of_holder(&world, false);
        assert!(!said.contains(GONE), "{said}");
    }
}

#[test]
fn people_see_a_table() {
    for world in World::each() {
        let holder = Holder::start(
            &world,
            [
                "--owner",
                "ana@desk",
                "--purpose",
                "nightly",
                "map:a/b=read",
            ],
        );
        let output = world.tenure().arg("ls").output().unwrap();
        let said = text(&output.stdout);
        let mut lines = said.lines();
        let headings: Vec<_> = lines.next().unwrap().split_whitespace().collect();
        // A kernel lock has no lease to name it by.
        let expected = match world.is_file() {
            true => "RESOURCE MODE OWNER PID AGE PURPOSE COMMAND",
            false => "RESOURCE MODE OWNER LEASE PID AGE PURPOSE COMMAND",
        };
        assert_eq!(headings.join(" "), expected);
        let row = lines.next().unwrap();
        let pid = holder.run.id().to_string();
        for part in [
            "map:a/b",
            "read",
            "ana@desk",
            pid.as_str(),
            "nightly",
            "sh -c",
        ] {
            assert!(row.contains(part), "{part:?} is not in {row:?}");
        }
    }
}

#[test]
fn a_lease_has_every_field_of_the_contract() {
    for world in World::each() {
        let _holder = Holder::start(&world, ["x"]);
        let listing = listing(&world, &[]);
        let lease = listing["held"][0].as_object().unwrap();
        let fields: Vec<_> = lease.keys().map(String::as_str).collect();
        let contract = "lease resource mode owner session token acquired_at expires_at heartbeat_at \
                    binding state pid host command purpose metadata";
        assert_eq!(fields, contract.split_whitespace().collect::<Vec<_>>());
        assert_eq!(lease["binding"], "session");
    }
}

#[test]
fn prefix_and_owner_choose() {
    for world in World::each() {
        let _holders = [
            Holder::start(
                &world,
                [
                    "--owner",
                    "one",
                    "map:a",
                    "map:b",
                    "name:map-maker",
                    "name:other",
                ],
            ),
            Holder::start(&world, ["--owner", "two", "mapping:x"]),
        ];
        assert_eq!(resources(&world, &["map:a"]), ["map:a"]);
        assert_eq!(
            resources(&world, &["map"]),
            ["map:a", "map:b", "name:map-maker"]
        );
        assert_eq!(resources(&world, &["oth"]), ["name:other"]);
        assert_eq!(resources(&world, &["--owner", "two"]), ["mapping:x"]);
        assert_eq!(resources(&world, &["nothing"]), [""; 0]);
    }
}

#[test]
fn pages_add_up_to_the_whole() {
    for world in World::each() {
        let _holder = Holder::start(
            &world,
            ["map:a", "map:b", "map:c", "name:map1", "name:map2"],
        );
        for arguments in [&[][..], &["map"]] {
            let whole = resources(&world, arguments);
            assert_eq!(whole.len(), 5);
            for limit in ["1", "2", "3", "5"] {
                let mut pages = Vec::new();
                let mut after: Option<String> = None;
                loop {
                    let mut arguments = arguments.to_vec();
                    arguments.extend(["--limit", limit]);
                    if let Some(after) = &after {
                        arguments.extend(["--after", after]);
                    }
                    let page = listing(&world, &arguments);
                    let held = page["held"].as_array().unwrap();
                    assert!(held.len() <= limit.parse().unwrap());
                    pages.extend(
                        held.iter()
                            .map(|lease| lease["resource"].as_str().unwrap().to_owned()),
                    );
                    match page["next"].as_str() {
                        Some(next) => after = Some(next.to_owned()),
                        None => break,
                    }
                }
                assert_eq!(pages, whole, "limit {limit}");
            }
        }
    }
}

#[test]
fn looking_never_makes_a_lock_seem_busy() {
    for world in World::each() {
        assert!(world.is_free("x"));
        let mut lookers: Vec<_> = (0..4)
            .map(|_| {
                let mut command = std::process::Command::new("sh");
                world.prepare(&mut command);
                command
                    .arg("-c")
                    .arg("for i in $(seq 25); do \"$TENURE\" ls --json >/dev/null; done");
                command.spawn().unwrap()
            })
            .collect();
        while lookers
            .iter_mut()
            .any(|looker| looker.try_wait().unwrap().is_none())
        {
            assert!(world.is_free("x"));
        }
        assert!(
            lookers
                .iter_mut()
                .all(|looker| looker.wait().unwrap().success())
        );
    }
}

#[test]
fn a_page_with_one_long_path_is_no_wider_than_the_terminal() {
    let world = World::new();
    let path = format!("file:/{}main.rs", "a-deep-directory/".repeat(30));
    world.lock([path.as_str(), "--purpose", "rename the parser"]);
    let mut terminal = Terminal::open(&world);
    for columns in [100, 80] {
        for command in ["ls", "status"] {
            let line = format!("stty cols {columns}; \"$TENURE\" {command}; echo at the 'end'\r");
            terminal.press(&line);
            terminal.expect("at the end");
            let shown = terminal.screen();
            let mut lines = shown.lines().rev().skip_while(|line| *line != "at the end");
            let row = lines.nth(1).unwrap();
            assert!(row.contains('…') && row.contains("write"), "{shown}");
            assert!(row.chars().count() <= columns, "{row}");
        }
    }
}
