//! Files among the issues that are none, and a disk that is full: the rest is usable.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::place::Place;
use crate::site::Process;
use crate::world::{code, json, signal, text, until};

#[test]
fn an_issue_that_is_no_file_is_named_and_the_rest_is_usable() {
    let mut place = Place::new();
    place.stays_broken();
    let odd = ["link", "pipe", "directory", "socket"];
    place.add(&odd);
    place.add(&["good", "gone"]);
    for id in odd {
        fs::remove_file(place.path(&format!("issues/{id}.json"))).unwrap();
    }
    symlink("good.json", place.path("issues/link.json")).unwrap();
    let pipe = place.path("issues/pipe.json");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    fs::create_dir(place.path("issues/directory.json")).unwrap();
    let _socket = UnixListener::bind(place.path("issues/socket.json")).unwrap();
    let listed = place.json(&["ls"]);
    let mut named: Vec<&str> = listed["unreadable"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    named.sort_unstable();
    assert_eq!(named, ["directory", "link", "pipe", "socket"]);
    for id in odd {
        let said = place.refused(65, &["show", id]);
        assert!(said.contains(&format!("issues/{id}.json")), "{said}");
    }
    place.done(&["delete", "gone"]);
    assert_eq!(
        place
            .done(&["next", "--claim", "--owner", "ana"])
            .lines()
            .next(),
        Some("good")
    );
    place.done(&["add", "another"]);
}

#[test]
fn an_issue_that_may_not_be_read_is_named_and_the_rest_is_usable() {
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["good", "gone", "secret"]);
    let tenure = place.world.copy_of_tenure();
    let root = place.root();
    for open in [place.world.path(""), root.parent().unwrap().to_owned()] {
        fs::set_permissions(open, Permissions::from_mode(0o755)).unwrap();
    }
    let mut chown_all = Command::new("chown");
    let chowned = chown_all.args(["-R", "65534:65534"]).arg(&root).status();
    assert!(chowned.unwrap().success());
    let secret = place.path("issues/secret.json");
    chown(&secret, Some(0), Some(0)).unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let as_another = |expected: i32, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        place.world.prepare(&mut command);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(&tenure).arg("board").args(arguments);
        let output = command.arg("--dir").arg(&root).output().unwrap();
        assert_eq!(code(&output), expected, "{arguments:?}: {output:?}");
        output
    };
    let listed = json(&as_another(0, &["ls", "--json"]).stdout);
    let unreadable = listed["unreadable"].as_array().unwrap();
    assert_eq!(unreadable.len(), 1, "{listed}");
    assert_eq!(unreadable[0]["id"], "secret");
    let said = text(&as_another(65, &["show", "secret"]).stderr);
    assert!(said.contains("issues/secret.json"), "{said}");
    as_another(0, &["delete", "gone"]);
    let next = as_another(0, &["next", "--claim", "--owner", "ana"]);
    assert_eq!(text(&next.stdout).lines().next(), Some("good"));
    as_another(0, &["add", "another"]);
}

#[test]
fn the_index_is_not_read_again_for_each_file_that_is_missing() {
    const MISSING: usize = 50;
    let mut place = Place::new();
    place.stays_broken();
    place.add(&["good"]);
    let index = fs::read_to_string(place.path("index.json")).unwrap();
    let missing: Vec<String> = (0..MISSING)
        .map(|number| format!("\"m{number}\""))
        .collect();
    let index = index.replace("\"good\"", &format!("\"good\",{}", missing.join(",")));
    fs::write(place.path("index.json"), index).unwrap();
    let listed = place.json(&["ls"]);
    assert_eq!(listed["unreadable"].as_array().unwrap().len(), MISSING);
    let trace = place.world.path("trace");
    let own = place.command(&["ls"]);
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-e", "trace=open,openat", "-o"]);
    traced
        .arg(&trace)
        .arg(own.get_program())
        .args(own.get_args());
    place.world.prepare(&mut traced);
    if let Some(directory) = own.get_current_dir() {
        traced.current_dir(directory);
    }
    let output = traced.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let calls = fs::read_to_string(trace).unwrap();
    let opened = calls.matches("/index.json\"").count();
    assert!((1..10).contains(&opened), "it was opened {opened} times");
    assert_eq!(place.done(&["next"]), "good");
}

#[test]
fn a_signal_ends_the_reading_of_thousands_of_files() {
    let mut place = Place::new();
    place.stays_broken();
    let ids: Vec<String> = (0..20_000).map(|number| format!("m{number}")).collect();
    let index = serde_json::json!({"schema_version": 1, "all_ids": ids});
    fs::write(place.path("index.json"), index.to_string()).unwrap();
    for arguments in [
        &["ls"][..],
        &["next"],
        &["next", "--wait", "60s"],
        &["verify"],
    ] {
        let trace = place.world.path("trace");
        let _ = fs::remove_file(&trace);
        // Reading each file takes some time. The tracer is no child of ours, so that the signal
        // reaches the command itself.
        let own = place.command(arguments);
        let mut traced = Command::new("strace");
        place.world.prepare(&mut traced);
        traced.args(["-D", "-f", "-qq", "-e", "trace=openat,open"]);
        traced.args(["-e", "inject=openat,open:delay_enter=20000", "-o"]);
        traced.arg(&trace);
        traced.arg(own.get_program()).args(own.get_args());
        let reading = Process::start(&mut traced);
        until("it reads the issues", || {
            fs::read_to_string(&trace).is_ok_and(|calls| calls.contains("m5.json"))
        });
        signal(reading.id(), libc::SIGINT);
        let output = reading.end();
        assert_eq!(code(&output), 130, "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_board_on_a_full_disk_is_shown() {
    let place = Place::new();
    let disk = place.world.path("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs"])
        .arg(&disk)
        .status();
    assert!(mounted.unwrap().success());
    let directory = disk.join("board").display().to_string();
    let board = |arguments: &[&str]| {
        let mut command = place.world.tenure();
        command
            .arg("board")
            .args(arguments)
            .args(["--dir", &directory]);
        let output = command.output().unwrap();
        (output.status.code(), output)
    };
    assert_eq!(board(&["init"]).0, Some(0));
    assert_eq!(board(&["add", "one", "--id", "one"]).0, Some(0));
    for lock in ["index", "events", "gates"].map(|name| format!("board/.{name}.lock")) {
        let _ = fs::remove_file(disk.join(lock));
    }
    let _ = fs::remove_file(disk.join("board/issues/one.lock"));
    let mut filler = File::create(disk.join("filler")).unwrap();
    for size in [4096, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
    let (ls, show, add) = (
        board(&["ls"]),
        board(&["show", "one"]),
        board(&["add", "two"]),
    );
    let unmounted = Command::new("umount").arg("--lazy").arg(&disk).status();
    assert!(unmounted.unwrap().success());
    assert_eq!(ls.0, Some(0), "{ls:?}");
    assert_eq!(show.0, Some(0), "{show:?}");
    assert_eq!(add.0, Some(69), "{add:?}");
}
