//! Bodies that are no proper JSON, and long ones.

use serde_json::{Value, json};

use crate::place::{GUARDS, ONE, OTHER, Place, reason};
use crate::world::text;

/// Returns the body of an edit, as text, with another field in front.
fn edit(place: &Place, more: &str) -> String {
    let input = json!({"tool_name": "Write", "tool_input": {"file_path": place.path("a.rs")}});
    let body = place.body(OTHER, "PreToolUse", input).to_string();
    format!("{{{more},{}", &body[1..])
}

#[test]
fn what_is_wrong_beside_the_fields_that_count_keeps_no_guard_from_deciding() {
    let place = Place::with(GUARDS);
    assert_eq!(place.edit(ONE, "a.rs"), "");
    let deep = format!("\"x\":{}{}", "[".repeat(200), "]".repeat(200));
    for more in [
        "\"x\":\"cut \\ud83d\"",
        "\"x\":1e400",
        "\"x\":\"\t\"",
        &deep,
    ] {
        let output = place.send(&edit(&place, more));
        assert_eq!(text(&output.stderr), "", "{more}");
        assert!(reason(&place.answer(&output)).contains("a.rs"), "{more}");
    }
    let marked = format!("\u{feff}{}", edit(&place, "\"x\":1"));
    assert!(reason(&place.answer(&place.send(&marked))).contains("a.rs"));
    let stop = place.body(ONE, "Stop", json!({"last_assistant_message": "x"}));
    let cut = stop.to_string().replace("\"x\"", "\"done \\ud83c\"");
    assert_eq!(text(&place.send(&cut).stderr), "");
    crate::world::until("the stop takes effect", || {
        place.watch();
        place.agent(ONE)["state"] == "idle"
    });
}

#[test]
fn a_write_of_nine_megabytes_is_guarded() {
    let place = Place::with(GUARDS);
    assert_eq!(place.edit(ONE, "a.rs"), "");
    let content = "y".repeat(9 << 20);
    let input = json!({"content": content, "file_path": place.path("a.rs")});
    let write = json!({"tool_name": "Write", "tool_input": input});
    let denied = reason(&place.hook(OTHER, "PreToolUse", write));
    assert!(denied.contains("a.rs"), "{denied}");
}

#[test]
fn of_a_body_that_was_cut_what_is_there_decides_and_the_rest_is_told() {
    let place = Place::with(GUARDS);
    assert_eq!(place.edit(ONE, "a.rs"), "");
    let whole = edit(&place, "\"x\":1");
    let cut = &whole[..whole.rfind('"').unwrap() + 1];
    let output = place.send(cut);
    let told = text(&output.stderr);
    assert!(told.contains("cannot be read whole"), "{told}");
    assert!(reason(&place.answer(&output)).contains("a.rs"));
    // A body that is cut off before its session belongs to no agent.
    let output = place.send("{\"hook_event_name\":\"PreToolUse\",\"tool_na");
    let told = text(&output.stderr);
    assert!(
        told.contains("no session_id") && told.contains("has no end"),
        "{told}"
    );
    assert_eq!(place.answer(&output), Value::Null);
}
