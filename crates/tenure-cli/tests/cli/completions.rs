//! `tenure completions` and `--help`.

use crate::world::{World, code, text};

#[test]
fn every_shell_gets_its_completions() {
    let world = World::new();
    for (shell, mark) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef tenure"),
        ("fish", "complete -c tenure"),
    ] {
        let output = world
            .tenure()
            .args(["completions", shell])
            .output()
            .unwrap();
        assert_eq!(code(&output), 0);
        let script = text(&output.stdout);
        assert!(script.contains(mark), "{shell}");
        for word in [
            "run",
            "lock",
            "renew",
            "recover",
            "break",
            "audit",
            "doctor",
            "ledger",
            "claim-ttl",
            "busy-exit",
            "slot",
        ] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let output = world
        .tenure()
        .args(["completions", "cmd"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
}

#[test]
fn completions_for_bash_are_valid_bash() {
    let world = World::new();
    let script = world
        .tenure()
        .args(["completions", "bash"])
        .output()
        .unwrap()
        .stdout;
    std::fs::write(world.path("script"), script).unwrap();
    let mut bash = std::process::Command::new("bash");
    world.prepare(&mut bash);
    assert!(bash.args(["-n", "script"]).status().unwrap().success());
}

#[test]
fn help_goes_to_standard_output_and_lists_the_exit_codes() {
    let world = World::new();
    let output = world.tenure().arg("--help").output().unwrap();
    assert_eq!(code(&output), 0);
    let help = text(&output.stdout);
    for part in ["Locks:", "Operate:", "Examples:", "Exit codes:", "130"] {
        assert!(help.contains(part), "{part}");
    }
    assert!(!help.contains("__hold"));
    let version = world.tenure().arg("--version").output().unwrap();
    assert_eq!(
        text(&version.stdout),
        format!("tenure {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn no_command_is_a_usage_error() {
    let world = World::new();
    assert_eq!(code(&world.tenure().output().unwrap()), 2);
}
