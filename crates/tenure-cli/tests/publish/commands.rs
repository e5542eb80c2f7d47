//! The output of publish, verify and history, and their refusals.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use crate::site::Site;
use crate::world::{World, code, json, text};

#[test]
fn a_directory_is_put_in_place_and_its_manifest_says_what_is_in_it() {
    for site in Site::each() {
        let target = site.target();
        let first = site.published("one", &target);
        assert_eq!(site.content(&target).as_deref(), Some("one"));
        let second = site.published("two", &target);
        assert_eq!(site.content(&target).as_deref(), Some("two"));
        site.verified(&target);
        assert_eq!(site.states(&target), ["committed", "committed"]);
        for manifest in [&first, &second] {
            for field in [
                "id",
                "op_type",
                "target",
                "tmp",
                "state",
                "files",
                "created_at",
                "committed_at",
                "author",
                "token",
            ] {
                assert!(!manifest[field].is_null(), "{field} of {manifest}");
            }
        }
        let files = second["files"].as_array().unwrap();
        let paths: Vec<&str> = files
            .iter()
            .map(|file| file["relative_path"].as_str().unwrap())
            .collect();
        assert_eq!(paths, ["a.txt", "in/b.txt"]);
        let expected = Command::new("sha256sum")
            .arg(site.path("srv/tiles/a.txt"))
            .output()
            .unwrap();
        assert_eq!(
            files[0]["sha256"].as_str().unwrap(),
            text(&expected.stdout).split(' ').next().unwrap()
        );
        assert!(second["token"].as_u64() > first["token"].as_u64());
        let history = site.world.json(["publish", "--history", &target]);
        for (number, manifest) in [&first, &second].into_iter().enumerate() {
            let stored = &history["manifests"][number];
            assert_eq!(stored, manifest, "what is told is what is stored");
        }
        assert_eq!(site.left_in_tmp(), [""; 0]);
        assert_eq!(site.world.json(["ls"])["held"], serde_json::json!([]));
        let audit = site
            .world
            .json(["audit", "--resource", &format!("file:{target}")]);
        let actions: Vec<&str> = audit["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["action"].as_str().unwrap())
            .collect();
        assert_eq!(
            actions,
            [
                "acquire", "publish", "release", "acquire", "publish", "release", "remove"
            ]
        );
    }
}

#[test]
fn people_see_manifests_with_sqlite3_and_psql() {
    const COLUMNS: &str = "op_type || ' ' || state || ' ' || author || ' ' || target_path";
    for site in Site::each() {
        let target = site.target();
        site.published("one", &target);
        let shown = match &site.database {
            Some(database) => database.psql(&format!(
                "SELECT {COLUMNS}, json_array_length(expected_files) FROM tenure.manifests"
            )),
            None => {
                let query =
                    format!("SELECT {COLUMNS}, json_array_length(expected_files) FROM manifests");
                let script = "import sqlite3, sys\nrow = sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone()\nprint('|'.join(map(str, row)))";
                let mut python = Command::new("python3");
                let python = python
                    .args(["-c", script])
                    .arg(site.path("store/tenure.db"))
                    .arg(query);
                text(&python.output().unwrap().stdout).trim().to_owned()
            }
        };
        let host = shown.split('@').nth(1).unwrap().split(' ').next().unwrap();
        assert_eq!(shown, format!("publish committed ana@{host} {target}|2"));
    }
}

#[test]
fn what_differs_is_named() {
    let site = Site::sqlite();
    let target = site.target();
    let missing = site.world.call(["publish", "--verify", &target]);
    assert_eq!(code(&missing), 66, "{missing:?}");
    site.published("one", &target);
    fs::write(site.path("srv/tiles/a.txt"), "a of one ").unwrap();
    fs::remove_file(site.path("srv/tiles/in/b.txt")).unwrap();
    fs::write(site.path("srv/tiles/in/new"), "").unwrap();
    let output = site.world.call(["publish", "--verify", &target]);
    assert_eq!(code(&output), 65);
    assert_eq!(
        text(&output.stdout),
        "a.txt: its content is another\nin/b.txt: it is missing\nin/new: it is not in the manifest\n"
    );
    let output = site.world.call(["publish", "--verify", &target, "--json"]);
    assert_eq!(code(&output), 65);
    let answer = json(&output.stdout);
    assert_eq!(answer["differences"].as_array().unwrap().len(), 3);
    assert_eq!(answer["error"]["kind"], "bad_input", "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("in 3 files"), "{message}");
}

#[test]
fn a_target_that_is_gone_differs_though_no_file_was_published() {
    let site = Site::sqlite();
    let (source, target) = (site.path("empty"), site.target());
    fs::create_dir(&source).unwrap();
    let published = site
        .world
        .call(["publish", source.to_str().unwrap(), &target]);
    assert_eq!(code(&published), 0, "{published:?}");
    fs::remove_dir(&target).unwrap();
    let verified = site.world.call(["publish", "--verify", &target]);
    assert_eq!(code(&verified), 65, "{verified:?}");
    assert_eq!(text(&verified.stdout), ".: the directory is missing\n");
}

#[test]
fn links_are_copied_as_links_and_modes_are_kept() {
    let site = Site::sqlite();
    let source = site.source("one");
    fs::write(site.path("secret"), "secret").unwrap();
    symlink("/etc", site.path("src-one/etc")).unwrap();
    symlink("../secret", site.path("src-one/out")).unwrap();
    fs::set_permissions(site.path("src-one/a.txt"), PermissionsExt::from_mode(0o750)).unwrap();
    fs::set_permissions(site.path("src-one/in"), PermissionsExt::from_mode(0o555)).unwrap();
    for _ in 0..2 {
        let output = site.world.call(["publish", &source, &site.target()]);
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(
            site.left_in_tmp(),
            [""; 0],
            "a directory that may not be written is removed, too"
        );
    }
    let link = |name: &str| fs::read_link(site.path("srv/tiles").join(name)).unwrap();
    assert_eq!(
        (link("etc").to_str(), link("out").to_str()),
        (Some("/etc"), Some("../secret"))
    );
    let mode = |name: &str| {
        fs::metadata(site.path("srv/tiles").join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!((mode("a.txt"), mode("in")), (0o750, 0o555));
    site.verified(&site.target());
}

#[test]
fn what_cannot_be_published_is_refused_and_nothing_is_in_place() {
    let site = Site::sqlite();
    let target = site.target();
    site.published("one", &target);
    let refused = |source: &str, target: &str, part: &str| {
        let output = site.world.call(["publish", source, target]);
        assert_eq!(code(&output), 65, "{output:?}");
        assert!(text(&output.stderr).contains(part), "{output:?}");
    };
    let source = site.source("two");
    let pipe = site.path("src-two/in/pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    refused(&source, &target, "neither file, directory nor link");
    fs::remove_file(pipe).unwrap();
    fs::write(site.path("file"), "").unwrap();
    refused(
        site.path("file").to_str().unwrap(),
        &target,
        "is no directory",
    );
    refused(
        &source,
        site.path("file").to_str().unwrap(),
        "is there and is no directory",
    );
    let inside = format!("{source}/in/new");
    refused(&source, &inside, "one inside the other");
    refused(&format!("{target}/in"), &target, "one inside the other");
    for missing in [["src-none", &target], [&source, "none/new"]] {
        let output = site.world.call(["publish", missing[0], missing[1]]);
        assert_eq!(code(&output), 66, "{output:?}");
        assert!(text(&output.stderr).contains("there is no directory"));
    }
    let many = site.path("many");
    fs::create_dir(&many).unwrap();
    let script =
        "import os, sys\nfor number in range(100_001): os.symlink('x', f'{sys.argv[1]}/{number}')";
    assert!(
        Command::new("python3")
            .args(["-c", script])
            .arg(&many)
            .status()
            .unwrap()
            .success()
    );
    refused(many.to_str().unwrap(), &target, "more than 100000 files");
    assert_eq!(site.content(&target).as_deref(), Some("one"));
    assert_eq!(site.left_in_tmp(), [""; 0]);
    assert_eq!(site.states(&target), ["committed", "aborted", "aborted"]);
    let slot = site
        .world
        .call(["publish", &source, &target, "--resource", "slot:x"]);
    assert_eq!(code(&slot), 2, "{slot:?}");
    let file = World::file();
    let output = file.call(["publish", &source, file.path("x").to_str().unwrap()]);
    assert_eq!(code(&output), 78, "{output:?}");
}

#[test]
fn targets_that_cannot_be_are_refused_before_anything_is_copied() {
    let site = Site::sqlite();
    let source = site.source("one");
    let before = |name: &str| site.path("srv").join(name).display().to_string();
    fs::write(site.path("srv/file"), "").unwrap();
    for (target, part) in [
        (before("tmp"), "choose another name"),
        (before(&"n".repeat(250)), "longer than 249 bytes"),
        (before("a\tb"), "control character"),
        (before("file"), "is no directory"),
    ] {
        let output = site.world.call(["publish", &source, &target]);
        assert_eq!(code(&output), 65, "{output:?}");
        assert!(text(&output.stderr).contains(part), "{output:?}");
    }
    fs::write(site.path("srv/tmp"), "").unwrap();
    let output = site.publish("one", &site.target());
    assert_eq!(code(&output), 65, "{output:?}");
    assert!(
        text(&output.stderr).contains("srv/tmp is no directory"),
        "{output:?}"
    );
    fs::remove_file(site.path("srv/tmp")).unwrap();
    assert_eq!(
        fs::read_dir(site.path("srv")).unwrap().count(),
        1,
        "nothing was made"
    );
    // The name is the longest that is possible.
    let longest = before(&"n".repeat(249));
    site.published("one", &longest);
    site.published("two", &longest);
    site.verified(&longest);
}

#[test]
fn a_target_that_would_take_a_repository_the_store_or_other_targets_along_is_refused() {
    let site = Site::sqlite();
    let source = site.source("one");
    site.published("one", &site.target());
    fs::create_dir_all(site.path("repository/.git")).unwrap();
    fs::create_dir_all(site.path("here/deep")).unwrap();
    fs::create_dir_all(site.path("kept/inside")).unwrap();
    let store = format!("sqlite:{}", site.path("kept/inside/x.db").display());
    let made = site.world.call(["lock", "x", "--store", &store]);
    assert_eq!(code(&made), 0, "{made:?}");
    for (target, part) in [
        ("srv", "was published to"),
        ("repository", "is a repository of git"),
        ("here", "is above or is the directory"),
        ("kept", "the store in"),
    ] {
        let before = site.path(target);
        let mut command = site.world.tenure();
        command.args(["publish", &source]).arg(&before);
        match target {
            "kept" => command.args(["--store", &store]),
            "here" => command.current_dir(site.path("here/deep")),
            _ => &mut command,
        };
        let output = command.output().unwrap();
        assert_eq!(code(&output), 65, "{target}: {output:?}");
        assert!(text(&output.stderr).contains(part), "{target}: {output:?}");
        assert!(!before.join("a").exists(), "{target}");
    }
    site.verified(&site.target());
}

/// Publishes 10 GB with `TENURE_TEST_EVERY_CALL` set, otherwise a size that is soon written.
#[test]
fn a_large_file_takes_little_memory() {
    let site = Site::sqlite();
    let bytes = match std::env::var_os("TENURE_TEST_EVERY_CALL") {
        Some(_) => 10 << 30,
        None => 200 << 20,
    };
    let source = site.source("one");
    let large = fs::File::create(site.path("src-one/large")).unwrap();
    large.set_len(bytes).unwrap();
    let mut command = Command::new("prlimit");
    site.world.prepare(&mut command);
    command
        .arg("--data=60000000")
        .arg(env!("CARGO_BIN_EXE_tenure"));
    let output = command
        .args(["publish", &source, &site.target()])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(
        fs::metadata(site.path("srv/tiles/large")).unwrap().len(),
        bytes
    );
}

#[test]
fn inside_a_run_that_holds_the_resource_its_lease_is_used() {
    for site in Site::each() {
        let source = site.source("one");
        let target = site.target();
        let inner = format!("\"$TENURE\" publish {source} {target} --resource map:atlas/m3 --json");
        let output = site.world.run(["map:atlas/m3", "--", "sh", "-c", &inner]);
        assert_eq!(code(&output), 0, "{output:?}");
        let audit = site.world.json(["audit", "--resource", "map:atlas/m3"]);
        let entries = audit["entries"].as_array().unwrap();
        let publish = entries
            .iter()
            .find(|entry| entry["action"] == "publish")
            .unwrap();
        assert_eq!(publish["lease"], entries[0]["lease"]);
        let weak = site
            .world
            .run(["map:atlas/m3=read", "--", "sh", "-c", &inner]);
        assert_eq!(code(&weak), 76, "read is too weak: {weak:?}");
    }
}

#[test]
fn publishers_of_one_target_come_one_after_the_other() {
    for site in Site::each() {
        let target = site.target();
        let names: Vec<String> = (0..6).map(|number| format!("p{number}")).collect();
        let start = |name: &String| {
            let source = site.source(name);
            let mut command = site.world.tenure();
            command.args(["publish", &source, &target, "--wait", "60s"]);
            command.stdout(Stdio::null()).spawn().unwrap()
        };
        let children: Vec<_> = names.iter().map(start).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        assert!(names.contains(&site.content(&target).unwrap()));
        site.verified(&target);
        assert_eq!(site.states(&target), ["committed"; 6]);
        assert_eq!(site.left_in_tmp(), [""; 0]);
    }
}
