//! The guides are right: every command of their console blocks is run, and prints what they show.
//!
//! A page is one session of bash in a fresh git repository, with `tenure` on its path, in the name
//! of `ana@desk`. Lines that begin with `$ ` are run in order; the lines after each are its output,
//! on stdout or stderr. A command that ends in `&` goes on beside the others, and may print later.
//!
//! A command that a reader need not see stands in a comment before the block, as
//! `<!-- run: COMMAND -->`. There `until_so COMMAND` tries until the command succeeds, and
//! `stop_background` ends the commands in the background. A block after `<!-- not run -->` is not
//! run.
//!
//! Output is compared after `normalise`. An id that the page shows stands for the id that was
//! really printed in its place, also in the commands that follow.

mod normalise;
mod page;
mod shell;

use tenure_testkit::postgres::Cluster;

use page::{Page, Step};
use shell::Shell;

/// Runs a page, and fails on the first command that prints something else.
fn runs(name: &str) {
    let page = Page::read(name);
    let mut shell = Shell::start();
    let mut commands = 0;
    for step in &page.steps {
        match step {
            Step::Hidden(command) => shell.hidden(command),
            Step::Shown { command, printed } => {
                shell.shown(name, command, printed);
                commands += 1;
            }
        }
    }
    assert!(commands > 0, "{name} shows no command");
}

#[test]
fn the_front_page_does_what_it_says() {
    runs("README.md");
}

#[test]
fn leases_do_what_the_guide_says() {
    runs("docs/leases.md");
}

#[test]
fn documents_do_what_the_guide_says() {
    runs("docs/documents.md");
}

#[test]
fn operations_do_what_the_guide_says() {
    runs("docs/operations.md");
}

#[test]
fn publish_does_what_the_guide_says() {
    runs("docs/publish.md");
}

#[test]
fn the_ledger_does_what_the_guide_says() {
    runs("docs/ledger.md");
}

#[test]
fn the_board_does_what_the_guide_says() {
    runs("docs/board.md");
}

#[test]
fn agents_do_what_the_guide_says() {
    runs("docs/agents.md");
}

#[test]
fn slots_do_what_the_guide_says() {
    runs("docs/slots.md");
}

#[test]
fn doctor_does_what_the_guide_says() {
    runs("docs/doctor.md");
}

#[test]
fn several_machines_do_what_the_guide_says() {
    let database = Cluster::shared().database();
    let page = Page::read("docs/several-machines.md");
    let mut shell = Shell::start();
    for step in &page.steps {
        match step {
            Step::Hidden(command) => shell.hidden(command),
            Step::Shown { command, printed } => {
                let command = command.replace("postgres://ana@db.example/atlas", &database.url());
                shell.shown("docs/several-machines.md", &command, printed);
            }
        }
    }
}

/// A guide that is added must be run, too.
#[test]
fn every_page_with_commands_is_run() {
    let run = [
        "agents.md",
        "board.md",
        "documents.md",
        "doctor.md",
        "leases.md",
        "ledger.md",
        "operations.md",
        "publish.md",
        "several-machines.md",
        "slots.md",
    ];
    let docs = page::root().join("docs");
    for entry in std::fs::read_dir(docs).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_page = name.ends_with(".md");
        if is_page && !run.contains(&name.as_str()) {
            let steps = Page::read(&format!("docs/{name}")).steps;
            assert!(
                steps.is_empty(),
                "docs/{name} shows commands that no test runs"
            );
        }
    }
}
