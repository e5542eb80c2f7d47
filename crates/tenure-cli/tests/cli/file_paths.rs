//! A lock on a file is one lock, however its path is written.

use std::fs;
use std::os::unix::fs::symlink;

use crate::world::{World, code};

/// A world with `src/main.rs`, and a link to `src`.
fn world() -> World {
    let world = World::new();
    fs::create_dir(world.path("src")).unwrap();
    fs::write(world.path("src/main.rs"), "").unwrap();
    symlink("src", world.path("link")).unwrap();
    world
}

#[test]
fn every_spelling_of_a_path_is_the_same_lock() {
    let world = world();
    let real = world.path("src/main.rs").canonicalize().unwrap();
    let held = format!("file:{}", real.display());
    world.lock([held.as_str()]);
    for spelling in [
        "file:src/main.rs",
        "file:./src/../src/main.rs",
        "file:link/main.rs",
        held.as_str(),
    ] {
        let refused = world.run(["--no-wait", spelling, "--", "true"]);
        assert_eq!(code(&refused), 75, "{spelling}: {refused:?}");
        let listed = world.json(["ls", spelling]);
        assert_eq!(listed["held"][0]["resource"], held.as_str(), "{spelling}");
        let audited = world.json(["audit", "--resource", spelling]);
        assert_eq!(
            audited["entries"][0]["resource"],
            held.as_str(),
            "{spelling}"
        );
    }
    let all = world.json(["ls", "file:src/"]);
    assert_eq!(all["held"].as_array().unwrap().len(), 1);
    let released = world.call(["release", "file:link/main.rs"]);
    assert_eq!(code(&released), 0, "{released:?}");
}

#[test]
fn a_file_that_is_not_there_yet_is_locked_where_it_will_be() {
    let world = world();
    world.lock(["file:link/new/x/../main.rs"]);
    let there = world
        .path("src")
        .canonicalize()
        .unwrap()
        .join("new/main.rs");
    let held = world.json(["ls"]);
    assert_eq!(
        held["held"][0]["resource"],
        format!("file:{}", there.display())
    );
}

#[test]
fn an_operation_locks_the_file_that_its_value_names_from_here() {
    let world = world();
    let own = "[operation.edit]\nabout = 'Edit a file'\nlocks = ['file:{path}']\n";
    fs::write(world.path("tenure.toml"), own).unwrap();
    let real = world.path("src/main.rs").canonicalize().unwrap();
    world.lock([format!("file:{}", real.display()).as_str()]);
    for path in ["path=src/main.rs", "path=link/main.rs"] {
        let edit = ["--no-wait", "--op", "edit", "--with", path, "--", "true"];
        let refused = world.run(edit);
        assert_eq!(code(&refused), 75, "{path}: {refused:?}");
        let shown = world.json(["op", "show", "edit", "--with", path]);
        let lock = &shown["operations"][0]["locks"][0]["resource"];
        assert_eq!(*lock, format!("file:{}", real.display()), "{path}");
    }
}
