//! The environment of the command under `run`, and its result.

use std::os::unix::fs::PermissionsExt;

use crate::world::{World, code, json, text};

#[test]
fn the_command_is_told_everything_about_its_leases() {
    for world in World::each() {
        let names = "STORE SESSION OWNER RESOURCE LEASE TOKEN";
        let script =
            format!("for n in {names}; do eval echo \\$TENURE_$n; done; printenv TENURE_LEASES");
        let output = world.run([
            "--owner",
            "agent:7",
            "--purpose",
            "why",
            "--meta",
            "{\"a\":1}",
            "name:b=read",
            "project:a",
            "--",
            "sh",
            "-c",
            &script,
        ]);
        let said = text(&output.stdout);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], world.store());
        assert_eq!(lines[2], "agent:7");
        assert_eq!(lines[3], "project:a,name:b", "in the order they are taken");
        let leases = json(lines[6].as_bytes());
        let leases = leases["leases"].as_array().unwrap();
        let joined = |field: &str| {
            let fields = leases
                .iter()
                .map(|lease| lease[field].to_string().replace('"', ""));
            fields.collect::<Vec<_>>().join(",")
        };
        assert_eq!(lines[3], joined("resource"));
        assert_eq!(lines[4], joined("lease"));
        assert_eq!(lines[5], joined("token"));
        assert_eq!(joined("mode"), "write,read");
        for lease in leases {
            assert_eq!(lease["session"], lines[1]);
            assert_eq!(lease["purpose"], "why");
            assert_eq!(lease["metadata"]["a"], 1);
            assert_eq!(lease["expires_at"], serde_json::Value::Null);
            assert!(
                lease["command"].as_str().unwrap().starts_with("sh -c "),
                "{lease}"
            );
        }
    }
}

#[test]
fn a_resource_named_twice_is_taken_once_in_its_strongest_mode() {
    let world = World::new();
    let script = "printenv TENURE_LEASES";
    let output = world.run([
        "x=read",
        "name:x",
        "x=upgradeable",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let leases = json(&output.stdout);
    let leases = leases["leases"].as_array().unwrap();
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0]["mode"], "write");
}

#[test]
fn tokens_grow_from_run_to_run() {
    for world in World::each() {
        let token = || {
            let output = world.run(["x", "--", "sh", "-c", "echo $TENURE_TOKEN"]);
            text(&output.stdout).trim().parse::<u64>().unwrap()
        };
        let (first, second) = (token(), token());
        assert!(first < second);
    }
}

#[test]
fn the_exit_code_of_the_command_is_passed_on() {
    let world = World::new();
    for expected in [0, 1, 75, 79, 255] {
        let script = format!("exit {expected}");
        assert_eq!(code(&world.run(["x", "--", "sh", "-c", &script])), expected);
    }
}

#[test]
fn a_signal_that_ended_the_command_is_passed_on() {
    for world in World::each() {
        for number in [libc::SIGKILL, libc::SIGSEGV, libc::SIGTERM] {
            let script = format!("kill -{number} $$");
            assert_eq!(
                code(&world.run(["x", "--", "sh", "-c", &script])),
                128 + number
            );
        }
    }
}

#[test]
fn standard_output_and_input_belong_to_the_command() {
    let world = World::new();
    let output = world.run(["--json", "x", "--", "echo", "hello"]);
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("hello\n".into(), String::new())
    );
}

#[test]
fn a_command_that_does_not_exist_is_127_and_leaves_the_lock_free() {
    for world in World::each() {
        let output = world.run(["x", "--", "no-such-command-here"]);
        assert_eq!(code(&output), 127);
        assert!(text(&output.stderr).contains("no-such-command-here"));
        assert!(world.is_free("x"));
        let output = world.run(["--json", "x", "--", "./no-such-command-here"]);
        assert_eq!(code(&output), 127);
        assert_eq!(json(&output.stdout)["error"]["kind"], "command_not_found");
    }
}

#[test]
fn a_command_that_is_not_executable_is_126_and_leaves_the_lock_free() {
    for world in World::each() {
        std::fs::write(world.path("plain"), "text").unwrap();
        for command in ["./plain", "/"] {
            let output = world.run(["x", "--", command]);
            assert_eq!(code(&output), 126, "{output:?}");
            assert!(world.is_free("x"));
        }
        let output = world.run(["--close", "--json", "x", "--", "./plain"]);
        assert_eq!(code(&output), 126);
        assert_eq!(
            json(&output.stdout)["error"]["kind"],
            "command_not_executable"
        );
    }
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell() {
    let world = World::new();
    let path = world.path("script");
    std::fs::write(&path, "echo from the script $TENURE_RESOURCE\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = world.run(["x", "--", "./script"]);
    assert_eq!(
        text(&output.stdout),
        "from the script name:x\n",
        "{output:?}"
    );
}

#[test]
fn the_owner_is_the_flag_else_the_variable_else_user_at_host() {
    let world = World::new();
    let owner = |variable: Option<&str>, flag: &[&str]| {
        let mut command = world.tenure();
        if let Some(value) = variable {
            command.env("TENURE_OWNER", value);
        }
        command
            .arg("run")
            .args(flag)
            .args(["x", "--", "sh", "-c", "echo $TENURE_OWNER"]);
        text(&command.output().unwrap().stdout).trim().to_owned()
    };
    assert!(owner(None, &[]).starts_with("ana@"));
    assert_eq!(owner(Some("agent:1"), &[]), "agent:1");
    assert_eq!(owner(Some("agent:1"), &["--owner", "agent:2"]), "agent:2");
}
