//! `tenure break`.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::holder::{HOLD, Holder};
use crate::process::Process;
use crate::terminal::Terminal;
use crate::world::{World, code, is_alive, json, text, until};

fn first_lease(world: &World) -> String {
    let listing = world.json(["ls"]);
    listing["held"][0]["lease"].as_str().unwrap().to_owned()
}

#[test]
fn the_command_of_a_broken_run_is_stopped_and_run_says_who_broke_it_and_why() {
    let world = World::new();
    let mut command = world.tenure();
    command.args(["run", "x", "--", "sh", "-c", HOLD]);
    let mut holder = Holder::from_command({
        command.stderr(Stdio::piped());
        command
    });
    let lease = first_lease(&world);
    let mut command = world.tenure();
    command.env("TENURE_OWNER", "eve@desk");
    command.args(["break", &lease, "--reason", "it is stuck", "--yes"]);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert!(said.starts_with("name:x is revoking"), "{said}");
    assert!(said.contains("at the latest at 2"), "{said}");
    assert_eq!(holder.code(), 79);
    assert!(!is_alive(holder.command));
    let mut said = String::new();
    let mut errors = holder.run.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    for part in ["name:x", "lost", "eve@desk", "it is stuck"] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    assert!(world.is_free("x"), "run confirmed its stop");
}

#[test]
fn a_command_that_will_not_stop_is_killed_within_the_ten_seconds() {
    let world = World::new();
    let script = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
    let mut command = world.tenure();
    command.args(["run", "x", "--", "sh", "-c", script]);
    command.stderr(Stdio::null());
    let mut holder = Holder::from_command(command);
    let lease = first_lease(&world);
    let began = Instant::now();
    let output = world.call(["break", &lease, "--reason", "stuck", "--yes"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(!world.is_free("x"), "nobody is granted before it stopped");
    assert_eq!(holder.code(), 79);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(!is_alive(holder.command));
    assert!(world.is_free("x"));
}

#[test]
fn a_command_that_outlived_its_run_is_shown_and_ended_by_the_break() {
    let stubborn = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
    for script in [HOLD, stubborn] {
        let world = World::new();
        let mut command = world.tenure();
        command.args(["run", "x", "--", "sh", "-c", script]);
        let mut holder = Holder::from_command(command);
        holder.signal_run(libc::SIGKILL);
        holder.wait();
        let listed = world.json(["ls"]);
        assert_eq!(listed["held"][0]["command_pid"], holder.command);
        let pid = holder.command.to_string();
        let table = text(&world.call(["ls"]).stdout);
        assert!(table.contains(&format!("goes on, pid {pid})")), "{table}");
        let next = Process::in_line(&world, "x", "next");
        let lease = first_lease(&world);
        let output = world.call(["break", &lease, "--reason", "run is gone", "--yes"]);
        assert_eq!(code(&output), 0, "{output:?}");
        assert!(
            text(&output.stderr).contains("the break ends its command"),
            "{output:?}"
        );
        assert!(
            text(&output.stdout).contains(&format!("its command, pid {pid}")),
            "{output:?}"
        );
        assert!(!is_alive(holder.command));
        next.token();
    }
}

#[test]
fn a_process_that_only_looks_is_not_ended_by_a_break() {
    let world = World::new();
    let mut holder = Holder::start(&world, ["x"]);
    holder.signal_run(libc::SIGKILL);
    holder.wait();
    let session = world.json(["ls"])["held"][0]["session"].clone();
    let file = world.path("store/sessions").join(session.as_str().unwrap());
    let looker = std::process::Command::new("sleep")
        .arg("600")
        .stdin(std::fs::File::open(&file).unwrap())
        .spawn();
    let mut looker = looker.unwrap();
    let lease = first_lease(&world);
    let output = world.call(["break", &lease, "--reason", "run is gone", "--yes"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(!is_alive(holder.command) && is_alive(looker.id()));
    looker.kill().unwrap();
    looker.wait().unwrap();
}

#[test]
fn the_whole_record_is_shown() {
    let world = World::new();
    let lease = world.lock([
        "x",
        "--owner",
        "ana",
        "--purpose",
        "deploy",
        "--meta",
        "{\"a\":1}",
    ]);
    let output = world.call(["break", &lease, "--reason", "its host is gone", "--yes"]);
    let said = text(&output.stderr);
    let contract = "lease resource mode owner session token acquired_at expires_at heartbeat_at \
                    binding state pid host command purpose metadata";
    for field in contract.split_whitespace() {
        assert!(
            said.lines().any(|line| line.trim().starts_with(field)),
            "{field}: {said}"
        );
    }
    assert!(
        said.contains("deploy") && said.contains("{\"a\":1}"),
        "{said}"
    );
}

#[test]
fn nobody_is_granted_for_ten_seconds_if_nobody_confirms() {
    let world = World::new();
    let lease = world.lock(["x"]);
    let began = Instant::now();
    let broken = world.json(["break", &lease, "--reason", "gone", "--yes"]);
    let broken = &broken["leases"][0];
    assert_eq!(
        (&broken["lease"], &broken["state"]),
        (&lease.as_str().into(), &"revoking".into())
    );
    let said = text(&world.call(["ls"]).stdout);
    assert!(
        said.contains("STATE") && said.contains("revoking"),
        "{said}"
    );
    let output = world.call(["renew", &lease]);
    assert_ne!(code(&output), 0, "{output:?}");
    assert_eq!(code(&world.run(["--wait", "30s", "x", "--", "true"])), 0);
    assert!(
        began.elapsed() >= Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(code(&world.call(["renew", &lease])), 77);
}

#[test]
fn the_holder_confirms_by_releasing() {
    let world = World::new();
    let lease = world.lock(["x"]);
    assert_eq!(
        code(&world.call(["break", &lease, "--reason", "mine", "--yes"])),
        0
    );
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert!(world.is_free("x"), "long before the ten seconds are over");
}

#[test]
fn a_person_is_asked_and_anything_but_yes_is_no() {
    let world = World::new();
    let lease = world.lock(["x"]);
    let mut terminal = Terminal::open(&world);
    let line = format!("\"$TENURE\" break {lease} --reason stuck; echo code=$?.\n");
    for answer in ["\n", "y\n", "no\n", "\x04"] {
        terminal.press(&line);
        terminal.expect("Type yes: ");
        terminal.press(answer);
        terminal.expect("was not broken");
        terminal.expect("code=1.");
        assert_eq!(world.json(["ls"])["held"][0]["state"], "held");
    }
    terminal.press(&line);
    terminal.expect("heartbeat_at");
    terminal.expect("Type yes: ");
    terminal.press("yes\n");
    terminal.expect("is revoking");
    terminal.expect("code=0.");
    assert_eq!(world.json(["ls"])["held"][0]["state"], "revoking");
}

#[test]
fn without_a_terminal_it_needs_yes() {
    let world = World::new();
    let lease = world.lock(["x"]);
    let output = world.call(["break", &lease, "--reason", "stuck"]);
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(text(&output.stderr).contains("--yes"), "{output:?}");
    let output = world.call(["break", &lease, "--reason", "stuck", "--json"]);
    assert_eq!(json(&output.stdout)["error"]["kind"], "usage");
    assert_eq!(world.json(["ls"])["held"][0]["state"], "held");
}

#[test]
fn what_is_automated_may_not() {
    let world = World::new();
    let lease = world.lock(["x"]);
    let try_as = |owner: &str| {
        let mut command = world.tenure();
        command.env("TENURE_OWNER", owner);
        command.args(["break", &lease, "--reason", "stuck", "--yes"]);
        command.output().unwrap()
    };
    for owner in ["agent:42", "job:7"] {
        let output = try_as(owner);
        assert_eq!(code(&output), 77, "{output:?}");
        assert!(text(&output.stderr).contains("for people"), "{output:?}");
    }
    std::fs::write(world.path("tenure.toml"), "automated = ['ci*']\n").unwrap();
    assert_eq!(code(&try_as("ci-bot")), 77);
    assert_eq!(world.json(["ls"])["held"][0]["state"], "held");
    assert_eq!(code(&try_as("agent:42")), 0, "the list is what it says");
}

#[test]
fn a_lease_that_is_not_there_is_66_and_one_that_is_over_77() {
    let world = World::new();
    let lease = world.lock(["x"]);
    assert_eq!(
        code(&world.call(["break", "nosuch", "--reason", "r", "--yes"])),
        66
    );
    assert_eq!(code(&world.call(["release", &lease])), 0);
    assert_eq!(
        code(&world.call(["break", &lease, "--reason", "r", "--yes"])),
        77
    );
}

#[test]
fn a_break_is_on_record_with_who_and_why() {
    let world = World::new();
    let lease = world.lock(["x", "--owner", "ana"]);
    let mut command = world.tenure();
    command.env("TENURE_OWNER", "eve");
    command.args(["break", &lease, "--reason", "the host is gone", "--yes"]);
    assert_eq!(code(&command.output().unwrap()), 0);
    let audit = world.json(["audit"]);
    let entries = audit["entries"].as_array().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry["action"] == "break")
        .unwrap();
    assert_eq!(
        (&entry["owner"], &entry["actor"], &entry["reason"]),
        (&"ana".into(), &"eve".into(), &"the host is gone".into())
    );
    until("the ten seconds are over", || world.is_free("x"));
    let audit = world.json(["audit"]);
    let entries = audit["entries"].as_array().unwrap();
    assert!(
        entries.iter().any(|entry| entry["action"] == "lost"),
        "{audit}"
    );
}

#[test]
fn the_help_of_run_says_what_becomes_of_a_command_whose_lock_is_broken() {
    let output = World::new().run(["--help"]);
    let said = text(&output.stdout).replace('\n', " ");
    let code =
        "79 the lock was lost, or broken by a person: the command was stopped, or never started";
    assert!(said.contains(code), "{said}");
}
