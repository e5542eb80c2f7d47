//! Programs that take no lock and change a document during an update: their content is never lost.
//!
//! If the instant matters, the command stands still after a system call of its own, and goes on
//! once the other program is done.

use std::fs;
use std::process::Output;

use crate::killed_at::{at, strace};
use crate::site::{Process, assert_tidy, bytes, doc, put, refused};
use crate::world::{World, code, signal, text, until};

const BEFORE: &str = "{\"n\":1}\n";
const AFTER: &str = "{\"n\":2}\n";
const EDITED: &str = "{\"edited\":true}\n";
const EDITED_AGAIN: &str = "{\"edited\":\"again\"}\n";
const UPDATE: [&str; 6] = ["doc", "update", "a.json", "--", "sed", "s/1/2/"];
const UPDATE_BOTH: [&str; 7] = ["doc", "update", "a.json", "b.json", "--", "sed", "s/1/2/g"];

/// Saves a file as most editors do.
fn rename_over(world: &World, name: &str, content: &str) {
    put(world, "editors.new", content);
    fs::rename(world.path("editors.new"), world.path(name)).unwrap();
}

/// Updates `a.json` by a command that runs this script first.
fn update_while(world: &World, script: &str) -> Output {
    let script = format!("{script}; echo '{{\"n\":2}}'");
    doc(world, ["update", "a.json", "--", "sh", "-c", &script])
}

#[track_caller]
fn assert_changed_meanwhile(output: &Output) -> String {
    let said = refused(output, 76);
    assert!(
        said.contains("changed meanwhile by a program that takes no lock"),
        "{said}"
    );
    said
}

#[test]
fn what_an_editor_renames_over_a_document_during_its_update_stays() {
    let world = World::new();
    put(&world, "a.json", BEFORE);
    let edit = format!("printf '%s' '{EDITED}' > new; mv new a.json");
    assert_changed_meanwhile(&update_while(&world, &edit));
    assert_eq!(bytes(&world, "a.json"), EDITED);
}

#[test]
fn what_a_program_writes_into_a_document_during_its_update_stays() {
    let world = World::new();
    put(&world, "a.json", BEFORE);
    let edit = format!("printf '%s' '{EDITED}' > a.json");
    assert_changed_meanwhile(&update_while(&world, &edit));
    assert_eq!(bytes(&world, "a.json"), EDITED);
}

#[test]
fn a_document_that_is_removed_during_its_update_stays_removed() {
    let world = World::new();
    put(&world, "a.json", BEFORE);
    assert_changed_meanwhile(&update_while(&world, "rm a.json"));
    assert!(!world.path("a.json").exists());
}

#[test]
fn a_document_that_a_program_makes_while_we_create_it_stays() {
    let world = World::new();
    let script = format!("printf '%s' '{EDITED}' > a.json; echo '{{}}'");
    let create = [
        "update", "--create", "{}", "a.json", "--", "sh", "-c", &script,
    ];
    assert_changed_meanwhile(&doc(&world, create));
    assert_eq!(bytes(&world, "a.json"), EDITED);
}

#[test]
fn of_several_documents_none_changes_if_an_editor_renamed_over_one() {
    let world = World::new();
    put(&world, "a.json", BEFORE);
    put(&world, "b.json", BEFORE);
    let script = format!("printf '%s' '{EDITED}' > new; mv new b.json; sed s/1/2/g");
    let update = ["update", "a.json", "b.json", "--", "sh", "-c", &script];
    assert_changed_meanwhile(&doc(&world, update));
    assert_eq!(bytes(&world, "a.json"), BEFORE);
    assert_eq!(bytes(&world, "b.json"), EDITED);
}

/// A directory of its own with the documents, and the calls of the command in it.
struct Scene {
    world: World,
    arguments: &'static [&'static str],
    calls: Vec<String>,
}

impl Scene {
    fn new(arguments: &'static [&'static str]) -> Self {
        let world = World::new();
        let mut scene = Self {
            world,
            arguments,
            calls: Vec::new(),
        };
        scene.put_documents("traced");
        let output = scene
            .strace("traced", &["-e", "trace=statx,renameat2"])
            .end();
        assert_eq!(code(&output), 0, "{output:?}");
        let trace = bytes(&scene.world, "trace");
        scene.calls = trace.lines().map(str::to_owned).collect();
        scene.put_documents("tried");
        scene
    }

    fn put_documents(&self, directory: &str) {
        fs::create_dir(self.world.path(directory)).unwrap();
        for name in ["a.json", "b.json"] {
            put(&self.world, &format!("{directory}/{name}"), BEFORE);
        }
    }

    fn strace(&self, directory: &str, options: &[&str]) -> Process {
        let trace = self.world.path("trace").display().to_string();
        let options = [&["-o", &trace], options].concat();
        Process::start(&mut strace(
            &self.world,
            directory,
            &options,
            self.arguments,
        ))
    }

    /// Stops the command after its last look at files before this document is exchanged; `options`
    /// are further options of strace.
    fn stop_before_exchange(&self, document: &str, options: &[&str]) -> Process {
        let name = format!("\"{}\"", self.world.path("traced").join(document).display());
        let is_exchange = |line: &String| line.contains("RENAME_EXCHANGE") && line.contains(&name);
        let exchange = self.calls.iter().position(is_exchange);
        let exchange =
            exchange.unwrap_or_else(|| panic!("no exchange of {name}: {:#?}", self.calls));
        let looks = self.calls[..exchange].iter();
        let looks = looks.filter(|line| line.starts_with("statx")).count();
        let stop = format!("inject=statx:signal=STOP:when={looks}");
        let filter = ["-e", "trace=statx,renameat2", "-e", &stop];
        let stopped = self.strace("tried", &[&filter, options].concat());
        self.until_stopped(1);
        stopped
    }

    fn until_stopped(&self, times: usize) {
        until("it stands still", || {
            let trace = fs::read(self.world.path("trace")).unwrap_or_default();
            text(&trace).matches("stopped by SIGSTOP").count() == times
        });
    }

    fn tried(&self, name: &str) -> String {
        bytes(&self.world, &format!("tried/{name}"))
    }
}

fn go_on(tracer: &Process) {
    let id = tracer.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    signal(children.trim().parse().unwrap(), libc::SIGCONT);
}

#[test]
fn what_comes_between_the_last_look_and_the_exchange_is_exchanged_back() {
    let scene = Scene::new(&UPDATE);
    let command = scene.stop_before_exchange("a.json", &[]);
    rename_over(&scene.world, "tried/a.json", EDITED);
    go_on(&command);
    assert_changed_meanwhile(&command.end());
    assert_eq!(scene.tried("a.json"), EDITED);
    assert_tidy(&at(&scene.world, "tried", ""), &["a.json", "b.json"]);
}

#[test]
fn what_comes_after_the_exchange_as_well_is_kept_under_a_name_that_is_told() {
    let scene = Scene::new(&UPDATE);
    let after_the_exchange = ["-e", "inject=renameat2:signal=STOP:when=1"];
    let command = scene.stop_before_exchange("a.json", &after_the_exchange);
    rename_over(&scene.world, "tried/a.json", EDITED);
    go_on(&command);
    scene.until_stopped(2);
    assert_eq!(scene.tried("a.json"), AFTER, "the exchange is done");
    rename_over(&scene.world, "tried/a.json", EDITED_AGAIN);
    go_on(&command);
    let said = refused(&command.end(), 76);
    let mut both = [scene.tried("a.json"), kept(&said)];
    both.sort();
    assert_eq!(both, [EDITED_AGAIN, EDITED]);
}

#[test]
fn what_comes_between_the_commit_of_several_and_an_exchange_is_kept_under_a_name_that_is_told() {
    let scene = Scene::new(&UPDATE_BOTH);
    let command = scene.stop_before_exchange("b.json", &[]);
    rename_over(&scene.world, "tried/b.json", EDITED);
    go_on(&command);
    let said = refused(&command.end(), 76);
    assert!(said.contains("the transaction is done"), "{said}");
    assert_eq!(kept(&said), EDITED);
    assert_eq!(scene.tried("a.json"), AFTER);
    assert_eq!(scene.tried("b.json"), AFTER);
}

/// Returns the content of the file that a message names as kept.
#[track_caller]
fn kept(said: &str) -> String {
    let (_, after) = said
        .split_once("kept as ")
        .unwrap_or_else(|| panic!("{said}"));
    let path = after.lines().next().unwrap();
    text(&fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}")))
}

#[test]
fn a_file_system_that_cannot_exchange_names_gets_a_rename_after_the_same_look() {
    let world = World::new();
    fs::create_dir(world.path("here")).unwrap();
    put(&world, "here/a.json", BEFORE);
    let inject = [
        "-e",
        "trace=renameat2",
        "-e",
        "inject=renameat2:error=EINVAL",
    ];
    let output = Process::start(&mut strace(&world, "here", &inject, &UPDATE)).end();
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(
        text(&output.stderr).contains("RENAME_EXCHANGE"),
        "{output:?}"
    );
    assert_eq!(bytes(&world, "here/a.json"), AFTER);
    assert_tidy(&world.path("here"), &["a.json"]);
}
