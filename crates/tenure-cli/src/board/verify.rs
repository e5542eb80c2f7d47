//! `tenure board verify`: what is wrong with a board, and what was repaired.

use std::process::ExitCode;

use serde::Serialize;
use tenure::Class;
use tenure_board::{Board, Cure, Finding};

use super::open_board::OpenBoard;
use crate::cli::{BoardVerify, Global};
use crate::exit;
use crate::output::{self, word};
use crate::report::Failure;
use crate::table::{self, Table};

/// `{"issues":N,"findings":[…]}`.
#[derive(Serialize)]
struct Page {
    issues: usize,
    findings: Vec<Fault>,
}

/// `{"file","problem","repair"}`.
#[derive(Serialize)]
struct Fault {
    file: String,
    problem: String,
    repair: &'static str,
}

/// Repairs nothing unasked.
pub fn verify(global: &Global, options: &BoardVerify) -> Result<ExitCode, Failure> {
    let opened = OpenBoard::open_to_read(options.dir.as_deref())?;
    let verified = opened.wait(
        None,
        match options.repair {
            true => Board::repair,
            false => Board::verify,
        },
    )?;
    let root = opened.board().directory();
    let fault = |finding: &Finding| {
        let file = finding.path.strip_prefix(root).unwrap_or(&finding.path);
        Fault {
            file: file.display().to_string(),
            problem: finding.problem.clone(),
            repair: in_words(finding),
        }
    };
    let page = Page {
        issues: verified.issues,
        findings: verified.findings.iter().map(fault).collect(),
    };
    let repaired = verified
        .findings
        .iter()
        .filter(|found| found.is_repaired)
        .count();
    let left = verified.findings.len() - repaired;
    output::answer(global.json, &page, || {
        let mut table = Table::new(vec!["FILE", "PROBLEM", "REPAIR"]);
        for fault in &page.findings {
            table.push([
                fault.file.clone(),
                fault.problem.clone(),
                fault.repair.to_owned(),
            ]);
        }
        output::text(&table.text(table::width(), &["FILE", "PROBLEM", "REPAIR"]))?;
        let found = match (left, repaired) {
            (0, 0) => "all in order".to_owned(),
            (found, 0) => format!("found wrong: {found}"),
            (found, repaired) => format!("repaired: {repaired}, still wrong: {found}"),
        };
        word(&format!("{} issues, {found}", page.issues));
        Ok(())
    })?;
    match left {
        0 => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::from(exit::code(Class::BadInput))),
    }
}

fn in_words(finding: &Finding) -> &'static str {
    match (finding.cure, finding.is_repaired) {
        (Cure::Merge, false) => "--repair puts both sides together",
        (Cure::Merge, true) => "both sides were put together",
        (Cure::List, false) => "--repair lists it",
        (Cure::List, true) => "it is listed",
        (Cure::Remove, false) => "--repair removes it",
        (Cure::Remove, true) => "it was removed",
        _ => "correct it, or put back an older one",
    }
}
