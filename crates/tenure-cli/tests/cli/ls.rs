//! `tenure ls`.

use serde_json::Value;

use crate::holder::Holder;
use crate::world::{World, code, json, text};

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
    let world = World::new();
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
    assert_eq!(
        listing["waiting"],
        Value::Null,
        "the file store cannot know"
    );
}

#[test]
fn a_filter_that_matches_nothing_is_no_claim_about_the_rest() {
    let world = World::new();
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

#[test]
fn a_command_that_outlived_its_run_is_told_apart() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["x"]);
    let outlived = || {
        let listed = world.tenure().arg("ls").output().unwrap();
        let refused = world.run(["--no-wait", "x", "--", "true"]);
        [text(&listed.stdout), text(&refused.stderr)]
            .map(|said| said.contains("(run is gone; its command goes on)"))
    };
    assert_eq!(outlived(), [false, false]);
    holder.signal_run(libc::SIGKILL);
    holder.wait();
    assert_eq!(outlived(), [true, true]);
}

#[test]
fn people_see_a_table() {
    let world = World::new();
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
    assert_eq!(
        headings,
        [
            "RESOURCE", "MODE", "OWNER", "PID", "AGE", "PURPOSE", "COMMAND"
        ]
    );
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

#[test]
fn a_lease_has_every_field_of_the_contract() {
    let world = World::new();
    let _holder = Holder::start(&world, ["x"]);
    let listing = listing(&world, &[]);
    let lease = listing["held"][0].as_object().unwrap();
    let fields: Vec<_> = lease.keys().map(String::as_str).collect();
    let contract = "lease resource mode owner session token acquired_at expires_at heartbeat_at \
                    binding state pid host command purpose metadata";
    assert_eq!(fields, contract.split_whitespace().collect::<Vec<_>>());
    assert_eq!(lease["binding"], "session");
}

#[test]
fn prefix_and_owner_choose() {
    let world = World::new();
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

#[test]
fn pages_add_up_to_the_whole() {
    let world = World::new();
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

#[test]
fn looking_never_makes_a_lock_seem_busy() {
    let world = World::new();
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
