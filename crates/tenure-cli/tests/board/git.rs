//! A board under version control that git takes back.

use std::process::Command;

use crate::place::{Place, judge};

#[test]
fn what_git_takes_back_stays_taken_back() {
    let mut place = Place::new();
    place.stays_broken();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        place.world.prepare(&mut command);
        command.current_dir(place.root());
        command.args(["-c", "user.name=a", "-c", "user.email=a"]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    place.add(&["a"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    git(&["switch", "-qc", "feature"]);
    place.done(&["done", "a"]);
    place.add(&["b"]);
    assert_eq!(
        pending(&place),
        [] as [String; 0],
        "nothing is left to be made again"
    );
    git(&["add", "."]);
    git(&["commit", "-qm", "two"]);
    git(&["switch", "-q", "main"]);
    assert_eq!(place.issue("a")["state"], "open");
    let ids = |place: &Place| {
        let listed = place.json(&["ls"]);
        listed["issues"].as_array().unwrap().len()
    };
    assert_eq!(ids(&place), 1);
    // The other branch is as it was, and work goes on in both.
    git(&["switch", "-q", "feature"]);
    assert_eq!(
        (place.issue("a")["state"].as_str(), ids(&place)),
        (Some("done"), 2)
    );
    judge(&place.root());
    git(&["switch", "-q", "main"]);
    place.done(&["note", "a", "x"]);
    assert_eq!(place.done(&["next", "--claim"]), "a");
    judge(&place.root());
}

/// Returns the changes whose files are not synced yet.
fn pending(place: &Place) -> Vec<String> {
    let names = std::fs::read_dir(place.path(".pending")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains('-')).collect()
}
