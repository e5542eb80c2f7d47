//! Every refusal: its exit code, its message, its JSON.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

use crate::holder::Holder;
use crate::world::{World, code, json, text};

#[test]
fn busy_names_holder_command_pid_host_age_and_purpose_in_one_line() {
    for world in World::each() {
        let holder = Holder::start(&world, ["--owner", "ana@desk", "--purpose", "nightly", "x"]);
        let output = world.run(["--no-wait", "x", "--", "true"]);
        assert_eq!(code(&output), 75);
        assert!(output.stdout.is_empty());
        let said = text(&output.stderr);
        let line = said.lines().next().unwrap();
        let pid = format!("pid {} on ", holder.run.id());
        for part in [
            "tenure: name:x is held (write) by ana@desk for ",
            &pid,
            "\"sh -c ",
            "purpose: nightly",
        ] {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        assert!(said.lines().nth(1).unwrap().contains("--wait"), "{said}");
    }
}

#[test]
fn busy_is_data_with_json() {
    for world in World::each() {
        let holder = Holder::start(&world, ["--purpose", "nightly", "x"]);
        let output = world.run(["--json", "--no-wait", "x", "--", "true"]);
        assert_eq!(code(&output), 75);
        assert!(output.stderr.is_empty());
        let error = &json(&output.stdout)["error"];
        assert_eq!(
            (&error["kind"], &error["resource"]),
            (&"busy".into(), &"name:x".into())
        );
        let holders = &error["holders"];
        assert_eq!(holders[0]["pid"], holder.run.id());
        assert_eq!(holders[0]["purpose"], "nightly");
        assert_eq!(
            holders[0]["owner"].as_str().unwrap().split('@').next(),
            Some("ana")
        );
        assert!(error["remedy"].as_str().unwrap().contains("--wait"));
    }
}

#[test]
fn a_timeout_says_in_json_who_holds_it() {
    for world in World::each() {
        let _holder = Holder::start(&world, ["--owner", "ana@desk", "x"]);
        let output = world.run(["--json", "--wait", "30ms", "x", "--", "true"]);
        let error = &json(&output.stdout)["error"];
        let message = error["message"].as_str().unwrap();
        assert!(
            message.ends_with("was not free within 30ms; held by ana@desk"),
            "{message}"
        );
    }
}

#[test]
fn a_holder_that_only_knows_flock_is_looked_for_by_its_file() {
    let world = World::file();
    assert!(world.is_free("x"));
    let mut files = std::fs::read_dir(world.path("store/locks")).unwrap();
    let path = files.next().unwrap().unwrap().path();
    let file = std::fs::File::open(&path).unwrap();
    // SAFETY: a plain call with a descriptor that is open.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
    assert_eq!(locked, 0);
    let see = format!("fuser {}", path.display());
    for wait in [&["--no-wait"][..], &["--wait", "30ms"]] {
        let arguments = || wait.iter().copied().chain(["x", "--", "true"]);
        let said = text(&world.run(arguments()).stderr);
        assert!(
            said.contains("held by a program that leaves no record"),
            "{said}"
        );
        assert!(said.contains(&see) && !said.contains("tenure ls"), "{said}");
        let output = world.run(["--json"].into_iter().chain(arguments()));
        let error = &json(&output.stdout)["error"];
        assert!(error["remedy"].as_str().unwrap().contains(&see), "{error}");
    }
}

#[test]
fn usage_errors_in_json_are_one_paragraph_and_name_the_help() {
    let world = World::new();
    for arguments in [
        &["run", "--json", "--wiat", "5s", "x", "--", "true"][..],
        &["run", "--json", "--mode", "rw", "x", "--", "true"],
        &["run", "--json", "x=Write", "--", "true"],
        &["run", "--json"],
    ] {
        let output = world.tenure().args(arguments).output().unwrap();
        assert_eq!(code(&output), 2);
        let error = &json(&output.stdout)["error"];
        let message = error["message"].as_str().unwrap();
        for part in ["For more information", "tip:", "Usage:", "__hold", "\n\n"] {
            assert!(!message.contains(part), "{message}");
        }
        assert_eq!(error["remedy"], "look at: tenure run --help");
    }
    let output = world.tenure().args(["--json", "__hol"]).output().unwrap();
    let error = &json(&output.stdout)["error"];
    assert!(!error.to_string().contains("__hold"), "{error}");
    assert_eq!(error["remedy"], "look at: tenure --help");
}

#[test]
fn more_resources_than_the_command_can_be_told_of_are_refused_before_any_is_taken() {
    for world in World::each() {
        let names: Vec<String> = (0..257).map(|number| format!("x{number}")).collect();
        let with = |number: usize| {
            let names = names[..number].iter().map(String::as_str);
            names.chain(["--", "sh", "-c", "\"$TENURE\" run --reuse x7 -- true"])
        };
        let output = world.run(with(257));
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(text(&output.stderr).contains("at most 256"), "{output:?}");
        assert!(!world.path("store").exists());
        let output = world.run(with(256));
        assert_eq!(code(&output), 0, "{output:?}");
    }
}

#[test]
fn the_exit_code_for_busy_can_be_chosen() {
    for world in World::each() {
        let _holder = Holder::start(&world, ["x"]);
        for (flag, value) in [("-E", "0"), ("--busy-exit", "200")] {
            let output = world.run(["--no-wait", flag, value, "x", "--", "true"]);
            assert_eq!(code(&output).to_string(), value);
        }
        let output = world.run(["--wait", "50ms", "-E", "9", "x", "--", "true"]);
        assert_eq!(code(&output), 9);
        assert!(
            text(&output.stderr).contains("was not free within 50ms"),
            "{output:?}"
        );
        let output = world.run(["-E", "256", "x", "--", "true"]);
        assert_eq!(code(&output), 2);
    }
}

#[test]
fn no_wait_and_a_wait_of_nothing_are_the_same() {
    let world = World::new();
    let _holder = Holder::start(&world, ["x"]);
    let output = world.run(["--wait", "0s", "x", "--", "true"]);
    assert_eq!(code(&output), 75);
    assert!(
        text(&output.stderr).contains("name:x is held"),
        "{output:?}"
    );
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let world = World::new();
    let bad: [&[&str]; 12] = [
        &["--", "true"],
        &["x"],
        &["x", "--"],
        &["a b", "--", "true"],
        &["x=rw", "--", "true"],
        &["X:y", "--", "true"],
        &["--mode", "exclusive", "x", "--", "true"],
        &["--wait", "5", "x", "--", "true"],
        &["--owner", "", "x", "--", "true"],
        &["--purpose", "a\u{1b}b", "x", "--", "true"],
        &["--meta", "{", "x", "--", "true"],
        &["--slot", "heavy:", "--", "true"],
    ];
    for arguments in bad {
        let output = world.run(arguments.iter().copied());
        assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
        let output = world.run(["--json"].iter().chain(arguments).copied());
        assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        let error = &json(&output.stdout)["error"];
        assert_eq!(error["kind"], "usage");
        assert!(
            !error["message"].as_str().unwrap().contains('\u{1b}'),
            "{error}"
        );
    }
    assert!(!world.path("store").exists(), "nothing was touched");
}

#[test]
fn a_bad_resource_is_shown_with_the_byte_and_what_to_write() {
    let world = World::new();
    let output = world.run(["a=b", "--", "true"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("there is no mode \"b\"") && said.contains("%3D"),
        "{said}"
    );
    let output = world.run(["a b", "--", "true"]);
    let said = text(&output.stderr);
    assert!(said.contains("byte 1") && said.contains("%20"), "{said}");
    let mut command = world.tenure();
    command
        .arg("run")
        .arg(OsStr::from_bytes(b"a\xff"))
        .args(["--", "true"]);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("%FF"), "{output:?}");
}

#[test]
fn there_is_no_wait_without_an_end() {
    let world = World::new();
    for wait in ["8761h", "never", "99999999999h"] {
        let output = world.run(["--wait", wait, "x", "--", "true"]);
        assert_eq!(code(&output), 2, "{output:?}");
        assert!(text(&output.stderr).contains("at most 8760h"), "{output:?}");
    }
    let longest = world.run(["--wait", "8760h", "x", "--", "true"]);
    assert_eq!(code(&longest), 0, "{longest:?}");
    let help = world.call(["help", "run"]);
    assert!(text(&help.stdout).contains("at most 8760h"), "{help:?}");
}

#[test]
fn bad_variables_are_named_and_exit_78() {
    let world = World::new();
    for (name, value) in [
        ("TENURE_LOCK_TIMEOUT", "soon"),
        ("TENURE_RETRY_MAX_ATTEMPTS", "none"),
        ("TENURE_HEARTBEAT", "often"),
        ("TENURE_RETRY_INITIAL_DELAY_MS", "-1"),
        ("TENURE_TRUST_FLOCK", "yes"),
        ("TENURE_OWNER", " x"),
        ("TENURE_STORE", "nfs:/x"),
    ] {
        let output = world
            .tenure()
            .env(name, value)
            .args(["run", "x", "--", "true"])
            .output();
        let output = output.unwrap();
        assert_eq!(code(&output), 78, "{name}: {output:?}");
        assert!(text(&output.stderr).contains(if name == "TENURE_STORE" {
            "nfs:/x"
        } else {
            name
        }));
    }
}

#[test]
fn a_store_no_other_process_can_see_is_refused() {
    let world = World::new();
    let output = world.run(["--store", "memory:", "x", "--", "true"]);
    assert_eq!(code(&output), 78, "{output:?}");
    for unknown in ["nfs:/x", "file:", "sqlite:"] {
        let output = world.run(["--store", unknown, "x", "--", "true"]);
        assert_eq!(code(&output), 78, "{output:?}");
        assert!(!text(&output.stderr).contains("memory"), "{output:?}");
    }
}

#[test]
fn a_store_that_cannot_be_made_exits_69_and_says_where() {
    let world = World::new();
    std::fs::write(world.path("file"), "").unwrap();
    for store in ["file:file/store", "sqlite:file/store/tenure.db"] {
        let output = world.run(["--store", store, "x", "--", "true"]);
        assert_eq!(code(&output), 69, "{output:?}");
        assert!(text(&output.stderr).contains("file/store"), "{output:?}");
    }
}

#[test]
fn a_system_without_proc_is_told_what_to_mount() {
    for world in World::each() {
        let mut command = std::process::Command::new("unshare");
        world.prepare(&mut command);
        let script = "umount --lazy /proc && exec \"$TENURE\" run x -- echo ran";
        let output = command.args(["--mount", "sh", "-c", script]).output();
        let output = output.unwrap();
        assert_eq!(code(&output), 78, "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("mount -t proc proc /proc"), "{said}");
        assert!(!said.contains("directory above"), "{said}");
    }
}

#[test]
fn a_closed_standard_output_is_no_panic() {
    let world = World::new();
    let mut command = std::process::Command::new("sh");
    world.prepare(&mut command);
    let script = "\"$TENURE\" ls --json >/dev/full; \"$TENURE\" completions bash >/dev/full; \"$TENURE\" doctor >&-";
    let output = command.arg("-c").arg(script).output().unwrap();
    assert!(!text(&output.stderr).contains("panicked"), "{output:?}");
}

#[test]
fn an_argument_that_is_far_too_long_is_not_echoed_whole() {
    let world = World::new();
    let long = "a".repeat(100_000);
    for arguments in [
        &["lock", "x", "--ttl", &long][..],
        &["lock", &long],
        &["check", "x", &long],
        &["doc", "read", &long],
        &["--store", &long, "ls"],
        &[&long],
    ] {
        let output = world.call(arguments.iter().copied());
        assert_ne!(code(&output), 0, "{output:?}");
        let said = text(&output.stderr).len();
        assert!((1..9000).contains(&said), "{said} bytes");
        let with_json = world.call([&["--json"], arguments].concat());
        let said = with_json.stdout.len();
        assert!((1..9000).contains(&said), "{said} bytes as JSON");
    }
}
