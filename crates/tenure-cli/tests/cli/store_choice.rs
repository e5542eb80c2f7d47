//! The choice of the store, and its reason.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::world::{World, code, json, text};

/// Returns the store chosen in a directory and the reason, without any flag or variable.
fn chosen(world: &World, directory: &str) -> (String, String) {
    let directory = world.path(directory);
    std::fs::create_dir_all(&directory).unwrap();
    let mut command = world.tenure();
    command
        .env_remove("TENURE_STORE")
        .current_dir(directory)
        .args(["doctor", "--json"]);
    let diagnosis = json(&command.output().unwrap().stdout);
    let field = |name: &str| diagnosis[name].as_str().unwrap().to_owned();
    (field("store"), field("why"))
}

fn git(world: &World, arguments: &[&str]) {
    let mut command = Command::new("git");
    world.prepare(&mut command);
    command.args([
        "-c",
        "user.name=ana",
        "-c",
        "user.email=ana@desk",
        "-c",
        "init.defaultBranch=main",
    ]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn file(path: std::path::PathBuf) -> String {
    format!("file:{}", path.display())
}

fn sqlite(path: std::path::PathBuf) -> String {
    format!("sqlite:{}", path.display())
}

#[test]
fn outside_of_everything_it_is_the_state_directory_of_the_user() {
    let world = World::new();
    let (store, why) = chosen(&world, "somewhere");
    assert_eq!(
        store,
        sqlite(world.path("home/.local/state/tenure/tenure.db"))
    );
    assert!(why.contains("state directory"), "{why}");
}

#[test]
fn worktrees_share_the_store_and_so_the_locks() {
    let world = World::new();
    git(&world, &["init", "repo"]);
    git(
        &world,
        &["-C", "repo", "commit", "--allow-empty", "-m", "first"],
    );
    git(&world, &["-C", "repo", "worktree", "add", "../linked"]);
    let expected = sqlite(world.path("repo/.git/tenure/tenure.db"));
    for directory in ["repo", "repo/src", "linked", "linked/src"] {
        let (store, why) = chosen(&world, directory);
        assert_eq!(store, expected, "{directory}");
        assert!(why.contains("git repository"), "{why}");
    }
    let mut command = world.tenure();
    command
        .env_remove("TENURE_STORE")
        .current_dir(world.path("repo"));
    let inner =
        "cd ../linked && env -u TENURE_STORE -u TENURE_LEASES \"$TENURE\" run --no-wait x -- true";
    command.args(["run", "x", "--", "sh", "-c", inner]);
    assert_eq!(code(&command.output().unwrap()), 75);
}

#[test]
fn a_bare_repository_and_its_worktree_share_the_store() {
    let world = World::new();
    git(&world, &["init", "repo"]);
    git(
        &world,
        &["-C", "repo", "commit", "--allow-empty", "-m", "first"],
    );
    git(&world, &["clone", "--bare", "repo", "bare.git"]);
    git(&world, &["-C", "bare.git", "worktree", "add", "../linked"]);
    let expected = sqlite(world.path("bare.git/tenure/tenure.db"));
    assert_eq!(chosen(&world, "bare.git").0, expected);
    assert_eq!(chosen(&world, "linked").0, expected);
}

#[test]
fn a_file_beats_git_and_counts_from_the_main_worktree() {
    let world = World::new();
    git(&world, &["init", "repo"]);
    std::fs::write(world.path("repo/tenure.toml"), "store = 'file:.locks'\n").unwrap();
    git(&world, &["-C", "repo", "add", "tenure.toml"]);
    git(&world, &["-C", "repo", "commit", "-m", "first"]);
    git(&world, &["-C", "repo", "worktree", "add", "../linked"]);
    let names = |written: &str, expected: String| {
        for directory in ["repo", "linked"] {
            std::fs::write(world.path(directory).join("tenure.toml"), written).unwrap();
            let (store, why) = chosen(&world, directory);
            assert_eq!(store, expected);
            assert!(why.contains(&format!("{directory}/tenure.toml")), "{why}");
        }
    };
    names("store = 'file:.locks'\n", file(world.path("repo/.locks")));
    names(
        "store = 'sqlite:.locks/t.db'\n",
        sqlite(world.path("repo/.locks/t.db")),
    );
}

#[test]
fn the_flag_beats_the_variable() {
    let world = World::new();
    let output = world.run([
        "--store",
        "file:mine",
        "x",
        "--",
        "sh",
        "-c",
        "echo $TENURE_STORE",
    ]);
    assert_eq!(text(&output.stdout).trim(), file(world.path("mine")));
}

#[test]
fn a_mistyped_path_makes_no_directories() {
    let world = World::new();
    let mistyped = sqlite(world.path("srv/tenrue/x.db"));
    for variable in [false, true] {
        for arguments in [&["run", "x", "--", "true"][..], &["lock", "x"]] {
            let mut command = world.tenure();
            match variable {
                true => command.env("TENURE_STORE", &mistyped),
                false => command.args(["--store", &mistyped]),
            };
            let output = command.args(arguments).output().unwrap();
            assert_eq!(code(&output), 78, "{output:?}");
            let said = text(&output.stderr);
            let remedy = format!("mkdir -p {}\n", world.path("srv/tenrue").display());
            assert!(said.ends_with(&remedy), "{said}");
        }
    }
    assert!(!world.path("srv").exists());
    std::fs::create_dir(world.path("srv")).unwrap();
    let store = ["--store", mistyped.as_str()];
    let output = world.run(store.into_iter().chain(["x", "--", "true"]));
    assert_eq!(code(&output), 0, "one directory is made: {output:?}");
}

#[test]
fn a_file_with_a_mistake_is_refused_with_its_line() {
    let world = World::new();
    std::fs::write(world.path("tenure.toml"), "wait = '5m'\nwiat = '5m'\n").unwrap();
    for arguments in [&["run", "x", "--", "true"][..], &["ls"]] {
        let output = world.tenure().args(arguments).output().unwrap();
        assert_eq!(code(&output), 78);
        let said = text(&output.stderr);
        assert!(
            said.contains("tenure.toml, line 2") && said.contains("wiat"),
            "{said}"
        );
    }
}

#[test]
fn a_worktree_whose_repository_is_gone_is_refused() {
    let world = World::new();
    std::fs::create_dir(world.path("linked")).unwrap();
    std::fs::write(world.path("linked/.git"), "gitdir: /nowhere/at/all\n").unwrap();
    let mut command = world.tenure();
    command
        .env_remove("TENURE_STORE")
        .current_dir(world.path("linked"));
    let output = command.args(["run", "x", "--", "true"]).output().unwrap();
    assert_eq!(code(&output), 78, "{output:?}");
    assert!(
        text(&output.stderr).contains("git worktree repair"),
        "{output:?}"
    );
}

#[test]
fn a_file_of_another_user_is_ignored_with_a_word() {
    let world = World::new();
    let path = world.path("tenure.toml");
    std::fs::write(&path, "store = 'file:/nowhere'\n").unwrap();
    if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
        // Only root can give a file away. For any other user, a file of root is as foreign.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    }
    let mut command = world.tenure();
    command.args(["run", "x", "--", "echo", "ran"]);
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout), "ran\n");
    assert!(
        text(&output.stderr).contains("tenure.toml is ignored"),
        "{output:?}"
    );
}

#[test]
fn a_file_that_everybody_may_write_is_ignored_with_a_word() {
    let world = World::new();
    let path = world.path("tenure.toml");
    std::fs::write(&path, "store = 'file:/nowhere'\n").unwrap();
    let run = |mode: u32| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode).unwrap();
        let mut command = world.tenure();
        command.env_remove("TENURE_STORE");
        command.args(["doctor", "--json"]);
        let output = command.output().unwrap();
        (text(&output.stderr), text(&output.stdout))
    };
    let (said, found) = run(0o666);
    assert!(
        said.contains("tenure.toml is ignored: everybody may write it"),
        "{said}"
    );
    assert!(!found.contains("file:/nowhere"), "{found}");
    assert!(found.contains("chmod o-w"), "{found}");
    let (said, found) = run(0o664);
    assert!(!said.contains("is ignored"), "{said}");
    assert!(found.contains("file:/nowhere"), "{found}");
}

/// A relative directory would differ between two processes with `HOME=.`, which could then both
/// hold one lock.
#[test]
fn a_state_directory_that_is_not_absolute_is_refused() {
    let world = World::new();
    for (name, value) in [
        ("HOME", "."),
        ("HOME", "home"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_STATE_HOME", "../state"),
    ] {
        for arguments in [&["x"][..], &["--slot", "x:1"]] {
            let mut command = world.tenure();
            command.env_remove("TENURE_STORE").env(name, value);
            command
                .arg("run")
                .args(arguments)
                .args(["--", "echo", "ran"]);
            let output = command.output().unwrap();
            assert_eq!(code(&output), 78, "{name}={value}: {output:?}");
            assert!(output.stdout.is_empty(), "{output:?}");
            let said = text(&output.stderr);
            assert!(said.contains(name) && said.contains(value), "{said}");
        }
    }
    // A store that is named needs no state directory.
    let mut command = world.tenure();
    command.env("HOME", ".").args(["run", "x", "--", "true"]);
    assert_eq!(code(&command.output().unwrap()), 0);
}
