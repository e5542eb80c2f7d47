//! Files that an agent holds while it edits them.
//!
//! A lease on a file lasts for ten minutes after the last edit, and for an hour after a person was
//! asked to allow one.
//!
//! # Steps, before an edit and when a person is asked to allow it
//!
//! 1. For each file the holder of `file:PATH` is looked up.
//! 2. If another owner holds one of them, the edit is denied, and nothing is taken. A lease of
//!    another owner whose time is over does not count.
//! 3. A lease that the agent holds already gets its full time again. If a person is breaking it,
//!    the edit is denied, with the person and the reason. A lease that another hook of the agent
//!    has in hand is taken over ([`Keeper::take_over`]).
//! 4. The files that have no holder are taken as a set, all or none, without waiting.
//! 5. If another came in between, everything begins anew at 1, [`PASSES_MAX`] times at most.
//!
//! An edit is granted only after a pass in which every file was renewed, taken over or taken. Only
//! its time, the agent itself or a person ends such a lease.
//!
//! | a hook is killed, stopped or too late | leases it leaves | action of the agent's next hook |
//! |---|---|---|
//! | before 4 | the leases that were there | |
//! | in 4, before the set is bound | leases in its hand, until its session is proved dead, on PostgreSQL for 30 s | takes them over |
//! | after 4 | leases that run out by themselves | renews them |
//!
//! If two hooks of one agent run at once, the later takes over the leases that the earlier has in
//! hand. The earlier then finds its leases over, and begins anew. No hook therefore relies on a
//! lease that another one may still give back. A hook that is late gives nothing back, since its
//! leases may be bound by then, and renewed by another.
//!
//! # Limitations
//!
//! A file is known by its path: two hard links are two files, and so is a file whose directory is
//! renamed while it is held. A patch over more than 200 files is not guarded.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tenure::leases::LeaseTerms;
use tenure::request::PURPOSE_BYTES_MAX;
use tenure::{
    Class, Error, Keeper, Lease, LeaseState, LockSet, Mode, Options, Resource, Result, Session,
};

use crate::agents::processor::is_edit;

/// The time that a file is held after its last edit.
pub const EDIT_TTL: Duration = Duration::from_secs(10 * 60);
/// The time that a file is held after a person was asked to allow an edit. Its tool is then used
/// without another hook.
pub const ASKED_TTL: Duration = Duration::from_secs(60 * 60);
/// The largest number of files of an edit that is guarded.
const FILES_MAX: usize = 200;
/// The largest number of passes of one edit. Before each new pass another hook got further, so few
/// are needed.
const PASSES_MAX: usize = 20;

/// The decision about an edit.
#[derive(Debug)]
pub enum EditDecision {
    /// The edit may go on: the files are held now.
    Granted,
    /// The edit may not go on: another owner holds this lease.
    Denied(Box<Lease>),
    /// The edit may not go on: a person is breaking this lease of the agent, for this reason.
    Broken(Box<Lease>, String),
}

/// A file that its agent did not hold when it had edited it.
#[derive(Debug)]
pub struct Unheld {
    /// The path of the file.
    pub path: PathBuf,
    /// The lease that is in the way now, if there is one.
    pub lease: Option<Lease>,
    /// The person who is breaking the agent's lease, and the reason, if that is so.
    pub broken: Option<String>,
}

/// The state of a lease of the agent after a try to give it new time.
enum Kept {
    /// The lease has its new time.
    Held,
    /// A person is breaking the lease, for this reason.
    Broken(String),
    /// The lease is over, or it has changed hands within the agent.
    Gone,
}

/// Holds the files for the owner of the session, for `ttl` from now on: all of them, or no more
/// than before.
///
/// # Errors
///
/// Errors of the store, and `BadInput` for more files than are guarded.
pub async fn hold(
    keeper: &Keeper,
    session: &Session,
    files: &[PathBuf],
    purpose: &str,
    ttl: Duration,
) -> Result<EditDecision> {
    if files.len() > FILES_MAX {
        let problem = format!("an edit of more than {FILES_MAX} files is not guarded");
        return Err(Error::BadInput(problem));
    }
    for _ in 0..PASSES_MAX {
        if let Some(decision) = hold_once(keeper, session, files, purpose, ttl).await? {
            return Ok(decision);
        }
    }
    Err(Error::Unreachable {
        store: keeper.url().to_owned(),
        problem: format!("others came in between {PASSES_MAX} times"),
    })
}

/// Goes through the files once. Returns `None` if another came in between.
async fn hold_once(
    keeper: &Keeper,
    session: &Session,
    files: &[PathBuf],
    purpose: &str,
    ttl: Duration,
) -> Result<Option<EditDecision>> {
    let (mut own, mut free) = (Vec::new(), Vec::new());
    for file in files {
        let resource = resource_of(file)?;
        let (mine, other) = holders(keeper, session, &resource).await?;
        let other = other.filter(|lease| lease.state != LeaseState::Expired);
        match (mine, other) {
            (Some(lease), _) => own.push(lease),
            (None, Some(lease)) => return Ok(Some(EditDecision::Denied(Box::new(lease)))),
            (None, None) => free.push((resource, Mode::Write)),
        }
    }
    for lease in own {
        match keep(keeper, session, &lease, ttl).await? {
            Kept::Held => {}
            Kept::Broken(reason) => {
                return Ok(Some(EditDecision::Broken(Box::new(lease), reason)));
            }
            Kept::Gone => return Ok(None),
        }
    }
    if free.is_empty() {
        return Ok(Some(EditDecision::Granted));
    }
    let set = LockSet::new(&keeper.settings().ranking, free);
    let options = Options::default()
        .with_wait(Duration::ZERO)
        .with_purpose(kept_purpose(purpose))
        .with_metadata(json!({ "guard": "edit" }));
    let terms = LeaseTerms::default().with_ttl(at_most(keeper, ttl));
    match keeper.lock(session, &set, &terms, &options).await {
        Ok(_) => Ok(Some(EditDecision::Granted)),
        Err(error) if error.class() == Class::Busy => {
            for (resource, _) in set.iter() {
                if let (_, Some(lease)) = holders(keeper, session, resource).await? {
                    return Ok(Some(EditDecision::Denied(Box::new(lease))));
                }
            }
            Ok(None)
        }
        // Another hook of the agent took over what this one had in hand.
        Err(Error::LeaseOver { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the lease of the agent on a file, and the lease of another owner.
async fn holders(
    keeper: &Keeper,
    session: &Session,
    resource: &Resource,
) -> Result<(Option<Lease>, Option<Lease>)> {
    let held = keeper.holders(resource).await?.into_iter();
    let (mut own, mut others): (Vec<Lease>, Vec<Lease>) =
        held.partition(|lease| lease.owner == *session.owner());
    Ok((own.pop(), others.pop()))
}

/// Gives a lease of the agent its full time again, whichever of its hooks has it in hand.
async fn keep(keeper: &Keeper, session: &Session, lease: &Lease, ttl: Duration) -> Result<Kept> {
    let owner = Some(session.owner());
    let is_broken = lease.state == LeaseState::Revoking;
    // A lease that the agent took otherwise, as by a run, has its own rules.
    if !is_edit(lease) && !is_broken {
        return Ok(Kept::Held);
    }
    let ttl = at_most(keeper, ttl);
    match keeper.renew(&lease.lease, Some(ttl), owner).await {
        Ok(_) => Ok(Kept::Held),
        Err(Error::LeaseOver { reason, .. }) if is_broken => Ok(Kept::Broken(reason)),
        Err(_) if is_broken => Ok(Kept::Broken("a person is breaking it".into())),
        Err(Error::LeaseOver { .. } | Error::NotFound(_)) => Ok(Kept::Gone),
        Err(Error::NotAllowed { .. }) => match keeper.take_over(session, &lease.lease, ttl).await {
            Ok(Some(_)) => Ok(Kept::Held),
            Ok(None) | Err(Error::LeaseOver { .. } | Error::NotFound(_)) => Ok(Kept::Gone),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Returns a time to live, cut to the limit for automated owners.
fn at_most(keeper: &Keeper, ttl: Duration) -> Duration {
    ttl.min(keeper.settings().automated.ttl_max)
}

/// Returns the files that were edited and that the agent does not hold. The other files are held
/// for [`EDIT_TTL`] from now on.
///
/// # Errors
///
/// Errors of the store.
pub async fn unheld(keeper: &Keeper, session: &Session, files: &[PathBuf]) -> Result<Vec<Unheld>> {
    let mut unheld = Vec::new();
    // More files were not guarded in the first place.
    let guarded = if files.len() > FILES_MAX { &[] } else { files };
    for path in guarded {
        let resource = resource_of(path)?;
        let (own, other) = holders(keeper, session, &resource).await?;
        let broken = match own {
            None => None,
            Some(lease) => match keep(keeper, session, &lease, EDIT_TTL).await? {
                Kept::Held => continue,
                Kept::Broken(reason) => Some(reason),
                Kept::Gone => None,
            },
        };
        unheld.push(Unheld {
            path: path.clone(),
            lease: other,
            broken,
        });
    }
    Ok(unheld)
}

/// Returns the lock on a file.
fn resource_of(path: &Path) -> Result<Resource> {
    Resource::new("file", path.as_os_str().as_bytes())
        .map_err(|error| Error::BadInput(error.to_string()))
}

/// Returns the agent's task as the purpose of a lease: on one line, and cut to the limit, whatever
/// was typed.
fn kept_purpose(task: &str) -> String {
    let purpose = task.replace(char::is_control, " ");
    purpose[..purpose.floor_char_boundary(PURPOSE_BYTES_MAX)].to_owned()
}
