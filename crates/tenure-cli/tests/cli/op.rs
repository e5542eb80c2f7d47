//! `tenure op`, and `tenure run --op`.

use std::fs;

use serde_json::{Value, json as value};

use crate::world::{World, code, json, text};

const MAPS: &str = "policy = 'maps'\n";
const CALIBRATE: [&str; 6] = [
    "--op",
    "map.calibrate",
    "--with",
    "project=atlas",
    "--with",
    "map=m3",
];

fn world(settings: &str) -> World {
    let world = World::new();
    fs::write(world.path("tenure.toml"), settings).unwrap();
    world
}

/// Returns the locks that a command holds while it runs, as `resource mode`, in their order.
fn held<'a>(world: &World, arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let command = ["--", "sh", "-c", "printf %s \"$TENURE_LEASES\""];
    let output = world.run(arguments.into_iter().chain(command));
    assert_eq!(code(&output), 0, "{output:?}");
    let leases = json(&output.stdout);
    let shown = |lease: &Value| {
        let field = |name: &str| lease[name].as_str().unwrap().to_owned();
        format!("{} {}", field("resource"), field("mode"))
    };
    leases["leases"]
        .as_array()
        .unwrap()
        .iter()
        .map(shown)
        .collect()
}

#[test]
fn run_takes_exactly_the_locks_of_the_operation_in_order() {
    let world = world(MAPS);
    assert_eq!(
        held(&world, CALIBRATE),
        ["project:atlas read", "map:atlas/m3 write"]
    );
    let both = CALIBRATE.into_iter().chain(["slot-free", "project:b=read"]);
    assert_eq!(
        held(&world, both),
        [
            "project:atlas read",
            "project:b read",
            "map:atlas/m3 write",
            "name:slot-free write"
        ]
    );
}

#[test]
fn op_show_says_the_locks_that_run_takes_and_takes_none() {
    let world = world(MAPS);
    let shown = world.json([
        "op",
        "show",
        "map.calibrate",
        "--with",
        "map=m3",
        "--with",
        "project=atlas",
    ]);
    let locks = shown["operations"][0]["locks"].as_array().unwrap();
    let locks: Vec<String> = locks
        .iter()
        .map(|lock| {
            format!(
                "{} {}",
                lock["resource"].as_str().unwrap(),
                lock["mode"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(locks, held(&world, CALIBRATE));
    assert!(
        shown["operations"][0]["locks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|lock| lock["why"] != "")
    );
    // Without values, `show` names the places to fill in.
    let general = world.call(["op", "show", "map.bulk"]);
    let said = text(&general.stdout);
    assert!(said.contains("sketch:{project}/{map}/{sketch}"), "{said}");
    assert!(said.contains("objects over 1000"), "{said}");
    let general = world.json(["op", "show", "map.calibrate"]);
    let reasons = |shown: &Value| {
        let locks = shown["operations"][0]["locks"].as_array().unwrap().iter();
        locks.map(|lock| lock["why"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(reasons(&general), reasons(&shown));
    assert!(world.json(["ls"])["held"] == value!([]));
}

#[test]
fn what_is_missing_is_named_and_nothing_is_taken() {
    let world = world(MAPS);
    let cases: [(&[&str], &str); 6] = [
        (
            &["--op", "map.calibrate", "--with", "project=atlas"],
            "map.calibrate needs map",
        ),
        (
            &["--op", "map.calibrat", "--with", "project=atlas"],
            "no operation \"map.calibrat\"",
        ),
        (
            &[
                "--op",
                "map.view",
                "--with",
                "project=a",
                "--with",
                "map=m",
                "--with",
                "scale=2",
            ],
            "knows no scale",
        ),
        (
            &["--op", "map.bulk", "--with", "project=a", "--with", "map=m"],
            "map.bulk needs objects",
        ),
        (
            &[
                "--op",
                "map.bulk",
                "--with",
                "project=a",
                "--with",
                "map=m",
                "--with",
                "objects=-1",
            ],
            "objects=-1",
        ),
        (
            &[
                "--op",
                "map.view",
                "--with",
                "project=a",
                "--with",
                "map=m",
                "--with",
                "map=n",
            ],
            "map is given twice",
        ),
    ];
    for (arguments, missing) in cases {
        let started = ["--", "touch", "started"];
        let output = world.run(arguments.iter().copied().chain(started));
        assert_eq!(code(&output), 65, "{output:?}");
        assert!(text(&output.stderr).contains(missing), "{output:?}");
        assert!(!world.path("started").exists());
    }
    let without = World::new();
    let output = without.run(CALIBRATE.into_iter().chain(["--", "true"]));
    assert_eq!(code(&output), 65);
    assert!(
        text(&output.stderr).contains("policy = \"maps\""),
        "{output:?}"
    );
}

#[test]
fn two_operations_that_conflict_exclude_each_other() {
    let world = world(MAPS);
    let inner = format!(
        "{} run --op map.export --with project=atlas --with map=m3 --no-wait -- true; echo $?",
        world.tenure().get_program().display()
    );
    // The inner run is another session: the locks of the outer run do not count as its own.
    let inner = format!("unset TENURE_SESSION TENURE_LEASES; {inner}");
    let output = world.run(CALIBRATE.into_iter().chain(["--", "sh", "-c", &inner]));
    assert_eq!(text(&output.stdout).trim(), "75", "{output:?}");
}

#[test]
fn operations_of_ones_own_have_the_same_form() {
    let own = "[operation.'shop.price']\nabout = 'Change prices'\nlocks = ['shop:{shop}=write']\n\
               count = 'prices'\n[[operation.'shop.price'.above]]\nmore_than = 5\nlocks = ['shop:all']\n";
    let world = world(own);
    let few = [
        "--op",
        "shop.price",
        "--with",
        "shop=s1",
        "--with",
        "prices=5",
    ];
    assert_eq!(held(&world, few), ["shop:s1 write"]);
    assert_eq!(
        held(&world, ["--op", "shop.price", "--with", "prices=6"]),
        ["shop:all write"]
    );
    let listed = world.json(["op", "ls"]);
    assert_eq!(listed["operations"][0]["operation"], "shop.price");
    assert_eq!(listed["operations"][0]["from"], "tenure.toml");
    fs::write(
        world.path("tenure.toml"),
        "[operation.a]\nabout = 'x'\nlocks = ['map']\n",
    )
    .unwrap();
    let output = world.call(["op", "ls"]);
    assert_eq!(code(&output), 78);
    assert!(
        text(&output.stderr).contains("bad lock \"map\""),
        "{output:?}"
    );
}

#[test]
fn what_needs_a_person_is_not_started_by_an_agent() {
    let world = world(MAPS);
    let destroy = ["--op", "project.destroy", "--with", "project=atlas"];
    let by = |owner: &'static str| {
        let arguments = destroy.into_iter().chain(["--owner", owner, "--", "true"]);
        code(&world.run(arguments))
    };
    assert_eq!(by("agent:42"), 77);
    assert_eq!(by("ana@desk"), 0);
}
