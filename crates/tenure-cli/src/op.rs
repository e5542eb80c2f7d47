//! `tenure op`: which operations there are, and which locks each needs. Takes none.

use std::process::ExitCode;

use serde::Serialize;
use tenure::LockSet;
use tenure_work::policy::{Known, NeededLock, Needs, Policy, Scope, reason};

use crate::cli::{Global, Op, OpShow};
use crate::context::{Context, WAIT_DEFAULT};
use crate::output;
use crate::output::word;
use crate::report::Failure;
use crate::table::{self, Table};

/// `{"operations":[…],"next":null}`.
#[derive(Serialize)]
struct Operations<T> {
    operations: Vec<T>,
    next: Option<String>,
}

/// An operation as the list shows it.
#[derive(Serialize)]
struct Listed<'a> {
    operation: &'a str,
    about: &'a str,
    needs: Vec<&'a str>,
    count: Option<&'a str>,
    from: &'a str,
    needs_approval: bool,
}

/// An operation with the locks it needs in one case, or with keys in them.
#[derive(Serialize)]
struct OperationLocks<'a, L> {
    operation: &'a str,
    about: &'a str,
    locks: Vec<L>,
}

/// A lock with keys in its name.
#[derive(Serialize)]
struct Pattern {
    resource: String,
    mode: tenure::Mode,
    why: String,
}

/// Carries out one of them.
pub fn op(global: &Global, command: &Op) -> Result<ExitCode, Failure> {
    let context = Context::without_store()?;
    let policy = Policy::of(&context.located.config)?;
    match command {
        Op::Ls => ls(global, &policy),
        Op::Show(options) => show(global, &context, &policy, options),
    }
}

fn ls(global: &Global, policy: &Policy) -> Result<ExitCode, Failure> {
    let listed = policy.operations().map(|(name, known)| listed(name, known));
    let all = Operations {
        operations: listed.collect(),
        next: None,
    };
    output::answer(global.json, &all, || {
        if all.operations.is_empty() {
            word("no operation is defined here: see tenure op --help");
        }
        let mut table = Table::new(vec!["OPERATION", "NEEDS", "ABOUT"]);
        for listed in &all.operations {
            let needs: Vec<&str> = listed.needs.iter().copied().chain(listed.count).collect();
            table.push([
                listed.operation.to_owned(),
                needs.join(" "),
                listed.about.to_owned(),
            ]);
        }
        output::text(&table.text(table::width(), &["NEEDS", "ABOUT"]))
    })
}

fn listed<'a>(operation: &'a str, known: &'a Known) -> Listed<'a> {
    let needs = Needs::of(&known.operation);
    Listed {
        operation,
        about: &known.operation.about,
        needs: needs.keys,
        count: needs.count,
        from: &known.from,
        needs_approval: known.operation.needs_approval,
    }
}

fn show(
    global: &Global,
    context: &Context,
    policy: &Policy,
    options: &OpShow,
) -> Result<ExitCode, Failure> {
    let name = &options.operation;
    let known = policy.find(name)?;
    let about = &known.operation.about;
    let scope = Scope::new(options.with.iter().cloned())?;
    let locks = match scope.is_empty() && !Needs::of(&known.operation).keys.is_empty() {
        true => patterns(known),
        false => {
            let locks = in_order(context, policy.locks_of(name, &scope)?);
            let pattern = |lock: NeededLock| Pattern {
                resource: lock.resource.to_string(),
                mode: lock.mode,
                why: lock.why,
            };
            locks.into_iter().map(pattern).collect()
        }
    };
    let shown = OperationLocks {
        operation: name,
        about,
        locks,
    };
    let all = Operations {
        operations: vec![shown],
        next: None,
    };
    output::answer(global.json, &all, || {
        let mut table = Table::new(vec!["LOCK", "MODE", "WHY"]);
        for lock in &all.operations[0].locks {
            table.push([
                lock.resource.clone(),
                lock.mode.to_string(),
                lock.why.clone(),
            ]);
        }
        output::text(&format!("{name}: {about}\n"))?;
        output::text(&table.text(table::width(), &["LOCK", "WHY"]))
    })
}

/// Returns locks in the order in which they are taken.
fn in_order(context: &Context, locks: Vec<NeededLock>) -> Vec<NeededLock> {
    let pairs = locks.iter().map(|lock| (lock.resource.clone(), lock.mode));
    let set = LockSet::new(&context.settings(WAIT_DEFAULT).ranking, pairs);
    let find = |resource: &tenure::Resource| {
        locks
            .iter()
            .find(|lock| lock.resource == *resource)
            .cloned()
    };
    set.iter()
        .filter_map(|(resource, _)| find(resource))
        .collect()
}

/// Returns all locks that an operation may need, with the keys in them.
fn patterns(known: &Known) -> Vec<Pattern> {
    let operation = &known.operation;
    let mut patterns = Vec::new();
    let mut add = |locks: &[tenure::config::LockPattern], when: &str, why: &str| {
        patterns.extend(locks.iter().map(|lock| Pattern {
            resource: lock.name(),
            mode: lock.mode,
            why: format!("{when}{}", reason(lock, locks, why)),
        }));
    };
    add(&operation.locks, "", &operation.why);
    let count = operation.count.as_deref().unwrap_or_default();
    for above in &operation.above {
        add(
            &above.locks,
            &format!("instead, {count} over {}: ", above.more_than),
            &above.why,
        );
    }
    patterns
}
