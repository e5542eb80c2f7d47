//! `tenure audit`.

use serde_json::Value;

use crate::world::{World, code, text};

fn actions(audit: &Value) -> Vec<&str> {
    let entries = audit["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect()
}

#[test]
fn every_step_is_on_record_in_order_with_every_field() {
    let world = World::new();
    let lease = world.lock(["x=upgradeable", "--owner", "ana"]);
    for command in ["upgrade", "downgrade", "release"] {
        assert_eq!(code(&world.call([command, &lease])), 0, "{command}");
    }
    let audit = world.json(["audit"]);
    assert_eq!(
        actions(&audit),
        ["acquire", "upgrade", "downgrade", "release"]
    );
    assert_eq!(audit["next"], Value::Null);
    for entry in audit["entries"].as_array().unwrap() {
        let fields: Vec<_> = entry
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let contract = "at action resource lease token owner actor reason";
        assert_eq!(fields, contract.split(' ').collect::<Vec<_>>());
        assert_eq!(
            (&entry["lease"], &entry["owner"]),
            (&lease.as_str().into(), &"ana".into())
        );
    }
    let said = text(&world.call(["audit"]).stdout);
    let headings: Vec<_> = said.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        headings.join(" "),
        "AT ACTION RESOURCE LEASE TOKEN OWNER ACTOR REASON"
    );
    assert_eq!(said.lines().count(), 5, "{said}");
}

#[test]
fn resource_and_time_choose() {
    let world = World::new();
    assert!(world.is_free("x") && world.is_free("y"));
    let audit = world.json(["audit", "--resource", "y"]);
    assert_eq!(actions(&audit), ["acquire", "release"]);
    assert_eq!(audit["entries"][0]["resource"], "name:y");
    assert_eq!(actions(&world.json(["audit", "--since", "1h"])).len(), 4);
    let later = world.json(["audit", "--since", "2999-01-01T00:00:00Z"]);
    assert!(actions(&later).is_empty());
    let output = world.call(["audit", "--since", "2999-01-01T00:00:00Z"]);
    assert_eq!(text(&output.stderr), "tenure: nothing is on record\n");
}

#[test]
fn pages_add_up_to_the_whole() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        assert!(world.is_free(name));
    }
    let whole = world.json(["audit"])["entries"].clone();
    let mut pages = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut arguments = vec!["audit", "--limit", "4"];
        if let Some(after) = &after {
            arguments.extend(["--after", after]);
        }
        let page = world.json(arguments);
        let entries = page["entries"].as_array().unwrap();
        assert!(entries.len() <= 4);
        pages.extend(entries.iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(Value::Array(pages), whole);
    let output = world.call(["audit", "--limit", "1"]);
    assert!(
        text(&output.stderr).contains("there is more: --after '"),
        "{output:?}"
    );
}
