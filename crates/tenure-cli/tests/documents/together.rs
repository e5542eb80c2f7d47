//! Several documents at the same time: writers that name them in another order, and readers.

use serde_json::{Value, json};

use crate::site::{Process, done, put, read};
use crate::world::{World, code, until};

const LOOP: &str = "for i in $(seq 15); do \"$TENURE\" doc update --wait 60s FILES -- \
                    jq 'map_values(.n += 1)' || exit 1; done";

fn writer(world: &World, files: &str) -> Process {
    Process::shell(world, &LOOP.replace("FILES", files))
}

#[test]
fn transactions_that_name_documents_in_any_order_do_not_wait_for_each_other_for_ever() {
    let world = World::new();
    for name in ["a.json", "b.json", "c.json"] {
        put(&world, name, "{\"n\":0}\n");
    }
    let orders = [
        "a.json b.json",
        "b.json a.json",
        "c.json a.json",
        "b.json c.json",
    ];
    for process in orders.map(|files| writer(&world, files)) {
        let output = process.end();
        assert_eq!(code(&output), 0, "{output:?}");
    }
    for (name, writers) in [("a.json", 3), ("b.json", 3), ("c.json", 2)] {
        assert_eq!(read(&world, name), json!({ "n": writers * 15 }), "{name}");
    }
}

#[test]
fn whoever_reads_several_documents_sees_them_at_one_moment() {
    let world = World::new();
    for name in ["a.json", "b.json"] {
        put(&world, name, "{\"n\":0}\n");
    }
    let update = "while [ ! -e stop ]; do \"$TENURE\" doc update a.json b.json -- \
                  jq 'map_values(.n += 1)' || exit 1; done";
    let mut writer = Process::shell(&world, update);
    let mut cuts = Vec::new();
    until("ten transactions were seen", || {
        let shown = done(&world, ["read", "--json", "b.json", "a.json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let of = |at: usize| shown["documents"][at]["document"]["n"].as_u64().unwrap();
        assert_eq!(of(0), of(1), "{shown}");
        assert!(!writer.is_over(), "{}", writer.said());
        cuts.push(of(0));
        cuts.dedup();
        cuts.len() > 10
    });
    assert!(cuts.is_sorted(), "{cuts:?}");
    put(&world, "stop", "");
    assert_eq!(code(&writer.end()), 0);
}
