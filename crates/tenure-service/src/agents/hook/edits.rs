//! The guard of edits, as an agent meets it: the reason why it may not edit a file, or a warning
//! that it edited files without their locks.

use std::path::{Path, PathBuf};

use tenure::request::command_line;
use tenure::{Error, Keeper, Lease, LeaseState, Result, Session, clock, duration};
use tenure_work::agents::event::EventKind;
use tenure_work::agents::guard::{self, ASKED_TTL, EDIT_TTL, EditDecision, Unheld, shown};
use tokio::time::{Instant, timeout_at};

use super::HookCall;
use crate::Caller;
use crate::waiting::ends;

/// Waits for a decision until a deadline. A request that is late is forgotten, not dropped: a drop
/// would release its locks, on which another hook of the agent may rely by now. Locks that this
/// process leaves are taken over by a later hook, or run out.
pub async fn in_time<T>(
    deadline: Instant,
    decision: impl Future<Output = Result<T>>,
    late: impl FnOnce() -> Error,
) -> Result<T> {
    let mut decision = Box::pin(decision);
    match timeout_at(deadline, &mut decision).await {
        Ok(decided) => decided,
        Err(_) => {
            std::mem::forget(decision);
            Err(late())
        }
    }
}

/// Locks the files that a tool is about to edit. Returns the reason if the tool must not edit them.
pub async fn denied(
    keeper: &Keeper,
    session: &Session,
    call: &HookCall<'_>,
    task: Option<&str>,
) -> Result<Option<String>> {
    let (edits, event) = (call.edits(), &call.event);
    let tool = event.tool().unwrap_or("edit");
    if let Some(field) = edits.unknown {
        call.words.add(format!(
            "{tool} may edit the file in {field}, and is not guarded: say what it does in \
             tenure.toml, [guard.tools] {tool:?} = \"edits {field}\" or \"reads\""
        ));
    }
    if edits.files.is_empty() {
        return Ok(None);
    }
    let purpose = task.unwrap_or(tool);
    let ttl = match event.kind {
        EventKind::PermissionRequest => ASKED_TTL,
        _ => EDIT_TTL,
    };
    Ok(
        match guard::hold(keeper, session, &edits.files, purpose, ttl).await? {
            EditDecision::Granted => None,
            EditDecision::Denied(lease) => Some(held_by_another(&lease, &call.caller)),
            EditDecision::Broken(lease, reason) => Some(format!(
                "A person ends your lease on {}: {reason}. Nothing was changed. Leave the file alone until that person says \
                 otherwise, and work on something else.",
                path_of(&lease),
            )),
        },
    )
}

/// Returns the text to tell an agent about the files that its tool has edited, or `None` if it held
/// them all.
pub async fn told(keeper: &Keeper, session: &Session, files: &[PathBuf]) -> Result<Option<String>> {
    let unheld = guard::unheld(keeper, session, files).await?;
    let told: Vec<String> = unheld.iter().map(not_held).collect();
    Ok((!told.is_empty()).then(|| {
        format!(
            "{} Another agent may have changed what you did, or you what it did: look at the difference with git diff \
             before you go on.",
            told.join(" ")
        )
    }))
}

/// Returns the text to tell an agent that another one edits its file.
fn held_by_another(lease: &Lease, caller: &Caller) -> String {
    let purpose = match &lease.purpose {
        Some(purpose) => format!(" for \"{purpose}\""),
        None => String::new(),
    };
    let ends = match lease.state {
        LeaseState::Expired => "its time is over, and it is free in some seconds".to_owned(),
        _ => caller.in_words(ends(lease)),
    };
    format!(
        "{path} is being edited by {owner}{purpose}, since {since} ({age} ago); {ends}. Nothing was changed. \
         Work on something else and come back, or make your change in another file. \
         Look with: tenure ls {resource}. A person may end it with: tenure break {id} --reason TEXT",
        path = path_of(lease),
        owner = lease.owner,
        since = lease.acquired_at,
        age = duration::show(clock::now().since(lease.acquired_at)),
        resource = command_line([lease.resource.to_string()]),
        id = lease.lease,
    )
}

/// Returns the text to tell an agent about a file that it edited without holding it.
fn not_held(unheld: &Unheld) -> String {
    let path = shown(&unheld.path);
    match (&unheld.broken, &unheld.lease) {
        (Some(reason), _) => format!("A person ended your lease on {path} meanwhile: {reason}."),
        (None, Some(lease)) => format!(
            "You did not hold {path} to the end of your edit: {} holds it, since {}.",
            lease.owner, lease.acquired_at
        ),
        (None, None) => {
            format!("You did not hold {path} to the end of your edit, and nobody does now.")
        }
    }
}

/// Returns the path of the file of a lease, as it is shown to an agent.
fn path_of(lease: &Lease) -> String {
    let path = String::from_utf8_lossy(&lease.resource.raw_id()).into_owned();
    shown(Path::new(&path))
}
