//! Documents under several names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::site::{Process, RAISE, bytes, doc, done, names, put, refused};
use crate::world::{World, code, until_exists};

/// Makes a document `real/a.json`, and a link to it, `link.json`.
fn linked() -> World {
    let world = World::new();
    fs::create_dir(world.path("real")).unwrap();
    symlink("real/a.json", world.path("link.json")).unwrap();
    world
}

#[test]
fn a_link_stays_a_link_and_everything_is_beside_the_real_document() {
    let world = linked();
    put(&world, "real/a.json", "{\"n\":1}\n");
    done(&world, ["update", "link.json"].into_iter().chain(RAISE));
    assert_eq!(
        fs::read_link(world.path("link.json")).unwrap(),
        Path::new("real/a.json")
    );
    assert_eq!(bytes(&world, "real/a.json"), "{\"n\":2}\n");
    assert_eq!(done(&world, ["read", "link.json"]), "{\"n\":2}\n");
    assert_eq!(names(&world.path("real")), [".a.json.lock", "a.json"]);
    assert_eq!(names(&world.path("")), ["link.json", "real"]);
}

#[test]
fn a_link_and_its_document_exclude_each_other() {
    let world = linked();
    put(&world, "real/a.json", "{\"n\":1}\n");
    symlink("real", world.path("way")).unwrap();
    let work = "touch in; while [ ! -e go ]; do sleep 0.05; done; jq '.n += 1'";
    let all = ["link.json", "real/a.json", "way/a.json"];
    for held in all {
        let _ = fs::remove_file(world.path("go"));
        let _ = fs::remove_file(world.path("in"));
        let holder = Process::doc(&world, ["update", held, "--", "sh", "-c", work]);
        until_exists(&world.path("in"));
        for other in all {
            let update = ["update", "--no-wait", other, "--", "cat"];
            refused(&doc(&world, update), 75);
        }
        put(&world, "go", "");
        assert_eq!(code(&holder.end()), 0);
    }
    assert_eq!(bytes(&world, "real/a.json"), "{\"n\":4}\n");
}

#[test]
fn a_link_and_its_document_are_one_document_in_a_transaction_over_several() {
    let world = linked();
    put(&world, "real/a.json", "{\"n\":1}\n");
    let update = ["update", "link.json", "real/a.json", "--", "cat"];
    let said = refused(&doc(&world, update), 65);
    assert!(said.contains("twice"), "{said}");
}

#[test]
fn through_a_link_to_nothing_the_document_it_means_is_made() {
    let world = linked();
    let said = refused(&doc(&world, ["read", "link.json"]), 66);
    assert!(said.contains("link.json"), "{said}");
    let create = ["update", "--create", "{\"n\":0}", "link.json"];
    done(&world, create.into_iter().chain(RAISE));
    assert!(world.path("link.json").is_symlink());
    assert_eq!(
        done(&world, ["read", "real/a.json"]),
        bytes(&world, "real/a.json")
    );
    assert!(bytes(&world, "real/a.json").contains("\"n\": 1"));
}

#[test]
fn links_in_a_circle_are_refused() {
    let world = World::new();
    symlink("b.json", world.path("a.json")).unwrap();
    symlink("a.json", world.path("b.json")).unwrap();
    for arguments in [&["read", "a.json"][..], &["update", "a.json", "--", "cat"]] {
        let output = doc(&world, arguments.iter().copied());
        assert_ne!(code(&output), 0);
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(names(&world.path("")), ["a.json", "b.json"]);
}
