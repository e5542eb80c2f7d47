//! Notes of the issues and nodes that an agent has claimed: a file for each owner, in the user's
//! state directory.
//!
//! Boards and ledgers are in files of their own, anywhere, and know nothing of agents. The command
//! that claims for an agent leaves a note here, and every event of the agent's hooks gives the
//! claims it finds more time, or ends them with the session.
//!
//! A note is a hint. If a note is lost, its claim runs out by its own time. If the claim of a note
//! is over or another's by now, its token shows that at the next renewal, and the note is dropped.
//!
//! A renewal is an event in a log that is never cut, so a claim is renewed only when a tenth of its
//! time is over.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tenure::{Class, Error, Owner, Result, SessionOptions, Timestamp, clock};
use tenure_board::issue::IssueId;
use tenure_board::{Board, FileCaller};
use tenure_files::document::{Documents, Version};
use tenure_ledger::Ledger;
use tenure_ledger::{ClaimToken, Node};

use super::decide::ClaimAction;

/// The time to wait for the lock of a file with notes.
const WAIT: Duration = Duration::from_secs(1);
/// The largest number of claims that are remembered for one agent.
const CLAIMS_MAX: usize = 1000;

/// The place of a claim: a board or a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimedIn {
    /// An issue of a board.
    Board,
    /// A node of a ledger.
    Ledger,
}

/// A claim of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimNote {
    /// Its place: a board or a ledger.
    pub kind: ClaimedIn,
    /// The directory of the board or ledger.
    pub directory: PathBuf,
    /// The id of the issue or node.
    pub id: String,
    /// Its fencing token.
    pub token: u64,
    /// Its duration, in milliseconds.
    pub ttl_ms: u64,
    /// The time when it was last renewed.
    pub renewed_at: Timestamp,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    claims: Vec<ClaimNote>,
}

/// The notes of all owners.
#[derive(Debug, Clone)]
pub struct ClaimNotes {
    directory: PathBuf,
}

impl ClaimNotes {
    /// Returns the notes in the user's state directory. No file is made before it is needed.
    pub fn new(state_directory: &Path) -> Self {
        Self {
            directory: state_directory.join("claims"),
        }
    }

    fn path(&self, owner: &Owner) -> PathBuf {
        let name = &Version::of(owner.as_str().as_bytes()).to_string()[..32];
        self.directory.join(format!("{name}.json"))
    }

    /// Remembers a claim.
    ///
    /// # Errors
    ///
    /// `Io` or `Timeout` if the file cannot be written.
    pub fn add(&self, owner: &Owner, claim: ClaimNote) -> Result<()> {
        super::make_directory(&self.directory)?;
        let add = |notes: &mut Notes| {
            let is_same = |known: &ClaimNote| {
                (known.kind, &known.directory, &known.id)
                    == (claim.kind, &claim.directory, &claim.id)
            };
            notes.claims.retain(|known| !is_same(known));
            if notes.claims.len() < CLAIMS_MAX {
                notes.claims.push(claim.clone());
            }
        };
        self.change(owner, add)
    }

    fn change(&self, owner: &Owner, work: impl FnOnce(&mut Notes)) -> Result<()> {
        Documents::new(WAIT).transaction_or_create(&self.path(owner), Notes::default(), |notes| {
            work(notes);
            Ok(())
        })
    }

    /// Returns the claims of an owner.
    pub fn of(&self, owner: &Owner) -> Vec<ClaimNote> {
        let text = fs::read(self.path(owner)).unwrap_or_default();
        let notes: Notes = serde_json::from_slice(&text).unwrap_or_default();
        notes.claims
    }

    /// Returns the ledgers that any owner has claimed in.
    pub fn ledgers(&self) -> BTreeSet<PathBuf> {
        let files = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let notes = files.filter_map(|file| {
            let text = fs::read(file.path()).ok()?;
            serde_json::from_slice::<Notes>(&text).ok()
        });
        let claims = notes.flat_map(|notes| notes.claims);
        let in_ledgers = claims.filter(|claim| claim.kind == ClaimedIn::Ledger);
        in_ledgers.map(|claim| claim.directory).collect()
    }

    /// Reaps the ledgers that owners have claimed in. Returns the number of claims that were over,
    /// and the failures, for people.
    pub fn reap(&self) -> (usize, Vec<String>) {
        let (mut reaped, mut warnings) = (0, Vec::new());
        for directory in self.ledgers() {
            match reap(&directory) {
                Ok(count) => reaped += count,
                // The notes of a ledger that was removed stay until their owners come again.
                Err(error) if error.class() == Class::NotFound => {}
                Err(error) => warnings.push(error.to_string()),
            }
        }
        (reaped, warnings)
    }

    /// Forgets a claim that its owner has ended.
    ///
    /// # Errors
    ///
    /// `Io` or `Timeout` if the file cannot be written.
    pub fn forget(&self, owner: &Owner, kind: ClaimedIn, directory: &Path, id: &str) -> Result<()> {
        let is_it = |known: &ClaimNote| {
            (known.kind, known.directory.as_path(), known.id.as_str()) == (kind, directory, id)
        };
        if !self.of(owner).iter().any(is_it) {
            return Ok(());
        }
        let forget = |notes: &mut Notes| {
            notes.claims.retain(|known| !is_it(known));
        };
        self.change(owner, forget)
    }

    /// Gives the claims of an owner more time, or ends them, until `deadline`. Returns the
    /// failures, for people.
    ///
    /// Each claim gets its share of the time that is left, so that a claim whose lock is held does
    /// not keep the others from being renewed.
    pub fn renew_or_release(
        &self,
        owner: &Owner,
        claims: ClaimAction,
        deadline: Instant,
    ) -> Vec<String> {
        let known = self.of(owner);
        let now = clock::now();
        let mut warnings = Vec::new();
        let mut over = Vec::new();
        let mut renewed = Vec::new();
        let is_due = |claim: &&ClaimNote| {
            claims == ClaimAction::Release
                || now.since(claim.renewed_at).as_millis() * 10 >= u128::from(claim.ttl_ms)
        };
        let due: Vec<&ClaimNote> = known.iter().filter(is_due).collect();
        for (index, claim) in due.iter().copied().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let rest = u32::try_from(due.len() - index).unwrap_or(u32::MAX);
            match claim.renew_or_release(owner, claims, left / rest) {
                Ok(()) if claims == ClaimAction::Renew => renewed.push(claim.clone()),
                Ok(()) => over.push(claim.clone()),
                // The claim was released, is done, or is another's by now.
                Err(error) if is_over(&error) => over.push(claim.clone()),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        if over.is_empty() && renewed.is_empty() {
            return warnings;
        }
        let change = |notes: &mut Notes| {
            notes.claims.retain(|claim| !over.contains(claim));
            for claim in notes
                .claims
                .iter_mut()
                .filter(|claim| renewed.contains(claim))
            {
                claim.renewed_at = now;
            }
        };
        let changed = self.change(owner, change);
        warnings.extend(changed.err().map(|error| error.to_string()));
        warnings
    }
}

/// Ends the claims of a ledger that are over. A ledger without such claims is not locked.
fn reap(directory: &Path) -> Result<usize> {
    let ledger = Ledger::open(directory, WAIT)?;
    let now = ledger.time()?;
    if !ledger.claims()?.iter().any(|claim| claim.is_over(now)) {
        return Ok(0);
    }
    Ok(ledger.reap()?.len())
}

fn is_over(error: &Error) -> bool {
    matches!(
        error.class(),
        Class::NotAllowed | Class::NotFound | Class::Conflict | Class::BadInput
    )
}

impl ClaimNote {
    fn renew_or_release(&self, owner: &Owner, claims: ClaimAction, wait: Duration) -> Result<()> {
        let asker = SessionOptions::new(owner.clone()).asker();
        let ttl = Some(Duration::from_millis(self.ttl_ms));
        match self.kind {
            ClaimedIn::Board => {
                let mut caller = FileCaller::new(asker, wait);
                caller.is_automated = true;
                let board = Board::open(&self.directory, wait)?.for_caller(&caller);
                let id: IssueId = self.id.parse()?;
                match claims {
                    ClaimAction::Renew => board.renew(&id, Some(self.token), ttl).map(drop),
                    ClaimAction::Release => board.release(&id, Some(self.token)).map(drop),
                }
            }
            ClaimedIn::Ledger => {
                let ledger = Ledger::open(&self.directory, wait)?;
                let ledger = ledger.for_caller(&FileCaller::new(asker, wait));
                let node: Node = self.id.parse()?;
                match claims {
                    ClaimAction::Renew => {
                        let token: ClaimToken = format!("{node}#{}", self.token).parse()?;
                        ledger.renew(&token, ttl).map(drop)
                    }
                    ClaimAction::Release => ledger.release(&node).map(drop),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_whose_locks_are_held_share_one_deadline_and_a_free_one_is_renewed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("board");
        Board::init(&root).unwrap();
        let owner = Owner::parse("agent:claude-x").unwrap();
        let asker = SessionOptions::new(owner.clone()).asker();
        let board = Board::open(&root, WAIT).unwrap();
        let board = board.for_caller(&FileCaller::new(asker, WAIT));
        let notes = ClaimNotes::new(directory.path());
        let mut held = Vec::new();
        for number in 0..5 {
            let id: IssueId = format!("i{number}").parse().unwrap();
            let mut new = tenure_board::NewIssue::titled("x");
            new.id = Some(id.clone());
            board.create(new).unwrap();
            let issue = board.claim(&id, None).unwrap();
            let claim = ClaimNote {
                kind: ClaimedIn::Board,
                directory: root.clone(),
                id: id.to_string(),
                token: issue.claim.unwrap().token,
                ttl_ms: 60_000,
                renewed_at: Timestamp::from_millis(0),
            };
            notes.add(&owner, claim).unwrap();
            if number < 4 {
                let lock = fs::File::open(root.join(format!("issues/{id}.lock"))).unwrap();
                lock.lock().unwrap();
                held.push(lock);
            }
        }
        let began = Instant::now();
        let limit = Duration::from_millis(500);
        let warnings = notes.renew_or_release(&owner, ClaimAction::Renew, began + limit);
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(warnings.len(), 4, "{warnings:?}");
        let renewed = notes.of(&owner);
        let renewed = renewed
            .iter()
            .filter(|claim| claim.renewed_at > Timestamp::from_millis(0));
        assert_eq!(renewed.count(), 1, "the one that is free");
    }
}
