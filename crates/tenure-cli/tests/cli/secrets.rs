//! Secrets in command lines, which every user who lists the locks sees.

use std::fs;
use std::process::Command;

use crate::holder::Holder;
use crate::world::{World, code, text};

const SECRET: &str = "s3cret";

/// Starts a holder whose script then goes on until standard input ends; its arguments do nothing.
fn holding(world: &World, script: &str, arguments: &[&str]) -> Holder {
    let mut command = world.tenure();
    let script = format!("{script}; echo $$; exec cat >/dev/null");
    command.args(["run", "x", "--", "env", "PGPASSWORD=s3cret", "sh", "-c"]);
    Holder::from_command({
        command.arg(script).arg("sh").args(arguments);
        command
    })
}

/// Returns everything that others are told of a holder, in text and in JSON.
fn shown(world: &World) -> String {
    let mut shown = String::new();
    for arguments in [
        &["ls"][..],
        &["ls", "--json"],
        &["run", "--no-wait", "x", "--", "true"],
        &["run", "--no-wait", "x", "--json", "--", "true"],
    ] {
        let output = world.call(arguments.iter().copied());
        shown += &text(&output.stdout);
        shown += &text(&output.stderr);
    }
    shown
}

#[test]
fn secrets_in_a_command_line_are_not_shown() {
    for world in World::each() {
        let _holder = holding(
            &world,
            "MY_TOKEN=s3cret; client_secret='s3cret s3cret'; Password=s3cret true",
            &[
                "--password",
                SECRET,
                "--password=s3cret",
                "--token",
                SECRET,
                "--secret",
                SECRET,
                "host=db password=s3cret user=ana",
                "API_TOKEN=s3cret s3cret",
                "postgres://ana:s3cret@db/x",
                "the end",
            ],
        );
        let shown = shown(&world);
        assert!(!shown.contains(SECRET), "{shown}");
        for kept in ["PGPASSWORD=…", "--password …", "user=ana", "the end"] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }
}

#[test]
fn secrets_are_not_shown_of_who_works_on_a_document() {
    let world = World::new();
    fs::write(world.path("a.json"), "{}").unwrap();
    let script = "PGPASSWORD=s3cret; echo $$ >&3; cat >/dev/null <&4; cat";
    let shell = "exec 4<&0; \"$TENURE\" doc update a.json -- sh -c \"$0\" 3>&1 >/dev/null";
    let mut command = Command::new("sh");
    world.prepare(&mut command);
    command.args(["-c", shell, script]);
    let _holder = Holder::from_command(command);
    let output = world.call(["doc", "update", "--no-wait", "a.json", "--", "cat"]);
    assert_eq!(code(&output), 75, "{output:?}");
    let said = text(&output.stderr);
    assert!(!said.contains(SECRET), "{said}");
    assert!(said.contains("PGPASSWORD=…"), "{said}");
}

#[test]
fn commands_are_kept_by_name_alone_where_the_settings_say_so() {
    for world in World::each() {
        fs::write(world.path("tenure.toml"), "commands = \"name\"\n").unwrap();
        let _holder = holding(&world, "true", &["private"]);
        let shown = shown(&world);
        assert!(!shown.contains("private"), "{shown}");
        assert!(shown.contains("\"command\":\"env\""), "{shown}");
        if !world.is_file() {
            world.lock(["y", "--purpose", "private"]);
            let command = &world.json(["ls", "name:y"])["held"][0]["command"];
            assert_eq!(command, "tenure");
        }
    }
}
