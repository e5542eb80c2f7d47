//! Appends: a thread prepares its event alone, and a leader puts it in place with those of others.

use crate::LedgerError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_api::ledger::Claim;
use tenure_core::{Error, Owner, Result, RetryPolicy};
use tenure_os::cancel::Ended;
use tenure_os::disk::{Disk, Fresh};
use tenure_os::platform::Identity;
use tenure_os::random;

use super::append_queue::TOGETHER_MAX;
use super::decide::{self, ClaimRequest};
use super::event;
use super::held_claims::ClaimToken;
use super::lock::LedgerLock;
use super::{Ledger, state::State};

/// The mode of an event: other programs of this user read it.
const MODE: u32 = 0o600;

/// The conditions for appending an event.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// The number that the newest event must have.
    pub expect: Option<u64>,
    /// The claim that must still be held.
    pub claim: Option<ClaimToken>,
}

/// A request in the append queue. It carries the owner it is decided for, as another thread may
/// write it.
pub(super) struct Request {
    pub(super) owner: Owner,
    pub(super) wanted: Wanted,
}

/// The events that a request adds.
pub(super) enum Wanted {
    Event { prepared: Prepared, terms: Terms },
    Claim(ClaimRequest),
}

/// The result of a request.
#[derive(Debug, Default)]
pub(super) struct Appended {
    /// How many events it added.
    events: usize,
    /// The number of the last event.
    pub(super) sequence: u64,
    /// The claims that it is about.
    pub(super) claims: Vec<Claim>,
}

impl Request {
    pub(super) fn events_max(&self) -> usize {
        match &self.wanted {
            Wanted::Event { .. } => 1,
            // A claim that is over is reaped first.
            Wanted::Claim(ClaimRequest::Reap | ClaimRequest::End) => TOGETHER_MAX,
            Wanted::Claim(_) => 2,
        }
    }
}

impl Ledger {
    /// Appends an event, and returns its number once the event is durable.
    pub fn append(&self, event: &str) -> Result<u64> {
        self.append_on(event, Terms::default())
    }

    /// Appends an event if the newest one has the number `expected`. Otherwise fails with
    /// [`SequenceMismatch`](LedgerError::SequenceMismatch): the caller looks at what was added, and
    /// decides anew.
    pub fn append_if_sequence(&self, event: &str, expected: u64) -> Result<u64> {
        let (expect, claim) = (Some(expected), None);
        self.append_on(event, Terms { expect, claim })
    }

    /// Appends an event if the terms are met.
    pub fn append_on(&self, event: &str, terms: Terms) -> Result<u64> {
        let event = event::new(event)?;
        let preparing = self.preparing();
        let prepared = self.prepare(&event)?;
        let request = self.request(Wanted::Event { prepared, terms });
        let answer = self.submit_prepared(request, Some(preparing))?;
        Ok(answer.sequence)
    }

    /// Returns a request of this caller.
    pub(super) fn request(&self, wanted: Wanted) -> Request {
        let owner = self.locker.owner().clone();
        Request { owner, wanted }
    }

    /// Returns a request of this caller about claims.
    pub(super) fn about_claims(&self, request: ClaimRequest) -> Request {
        self.request(Wanted::Claim(request))
    }

    /// Appends the event that `decide` makes of the newest number. If another append comes between,
    /// asks `decide` again, after pauses that grow. Returns `None` if `decide` wants nothing
    /// appended.
    pub fn append_retrying<E: From<Error>>(
        &self,
        policy: &RetryPolicy,
        mut decide: impl FnMut(u64) -> Result<Option<String>, E>,
    ) -> Result<Option<u64>, E> {
        let mut failed = 0;
        loop {
            let newest = self.newest()?;
            let Some(event) = decide(newest)? else {
                return Ok(None);
            };
            match self.append_if_sequence(&event, newest) {
                Err(error) if is_mismatch(&error) => {
                    failed += 1;
                    match policy.pause(failed, random::fraction()) {
                        // Nothing is written in a pause, so a cancellation ends it.
                        Some(pause) if self.locker.cancel().sleep(pause) == Ended::Cancelled => {
                            return Err(self.interrupted().into());
                        }
                        Some(_) => {}
                        None => return Err(error.into()),
                    }
                }
                appended => return Ok(Some(appended?)),
            }
        }
    }

    /// Writes the event to a file of its own and syncs it: step 1.
    pub(super) fn prepare(&self, bytes: &[u8]) -> Result<Prepared> {
        let failed = |source| Error::io("write an event in", self.names.ledger(), source);
        let mut prepared = match self.disk.create_unnamed(self.names.ledger(), MODE) {
            Ok(file) => Prepared::new(self, bytes, file, None),
            // The file system has no files without a name, or does not sync them.
            Err(_) => {
                let path = self.names.temporary();
                let file = self.disk.create(&path, MODE).map_err(failed)?;
                Prepared::new(self, bytes, file, Some(path))
            }
        };
        let file = &mut prepared.file;
        file.write(bytes)
            .and_then(|()| file.sync())
            .map_err(failed)?;
        Ok(prepared)
    }

    /// Carries out steps 5 to 9 for all requests.
    pub(super) fn write_together(
        &self,
        held: &LedgerLock<'_>,
        requests: Vec<Request>,
    ) -> Vec<Result<Appended>> {
        let mut batch = match self.newest_durable(held) {
            Ok(newest) => Batch {
                ledger: self,
                held,
                newest,
                state: None,
                placed: Vec::new(),
                failed: None,
            },
            Err(error) => return requests.iter().map(|_| Err(again(&error))).collect(),
        };
        let answers: Vec<_> = requests
            .into_iter()
            .map(|request| batch.write(request))
            .collect();
        let Err(error) = batch.finish() else {
            return answers;
        };
        // A request that was refused keeps its own reason.
        let failed = |answer: Result<Appended>| {
            answer.and_then(|appended| Err(self.outcome(&appended, again(&error))))
        };
        answers.into_iter().map(failed).collect()
    }

    /// Returns the error of a request that could not be made durable: its outcome is unknown if its
    /// events are in place.
    fn outcome(&self, appended: &Appended, error: Error) -> Error {
        match error {
            Error::Io { .. } if appended.events > 0 => LedgerError::OutcomeUnknown {
                path: self.names.directory().to_owned(),
                sequence: appended.sequence,
                source: Box::new(error),
            }
            .into(),
            other => other,
        }
    }
}

/// An event in a file of its own, durable there. A drop before it is in place removes it.
pub(super) struct Prepared {
    disk: Arc<dyn Disk>,
    file: Box<dyn Fresh>,
    /// The name of the file, on a file system that has no files without a name.
    temporary: Option<PathBuf>,
    bytes: Vec<u8>,
}

impl Prepared {
    fn new(
        ledger: &Ledger,
        bytes: &[u8],
        file: Box<dyn Fresh>,
        temporary: Option<PathBuf>,
    ) -> Self {
        Self {
            disk: Arc::clone(&ledger.disk),
            file,
            temporary,
            bytes: bytes.to_vec(),
        }
    }

    /// Gives the event its place, which no file may have yet.
    fn put_in_place(&mut self, path: &Path) -> io::Result<()> {
        let Some(temporary) = &self.temporary else {
            return self.file.link(path);
        };
        self.disk.rename_without_replacing(temporary, path)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The error before this one is the one to tell.
            let _ = self.disk.remove(temporary);
        }
    }
}

/// Events that are written together.
struct Batch<'a> {
    ledger: &'a Ledger,
    held: &'a LedgerLock<'a>,
    newest: u64,
    /// The claims as of the newest event, if a request needed them.
    state: Option<State>,
    placed: Vec<(u64, Identity)>,
    /// The error after which nothing more is placed.
    failed: Option<Error>,
}

impl Batch<'_> {
    fn write(&mut self, request: Request) -> Result<Appended> {
        if let Some(failed) = &self.failed {
            return Err(again(failed));
        }
        let Request { owner, wanted } = request;
        match wanted {
            Wanted::Event { prepared, terms } => {
                self.require(&terms, &owner)?;
                self.place(prepared)?;
                Ok(Appended {
                    events: 1,
                    sequence: self.newest,
                    claims: Vec::new(),
                })
            }
            Wanted::Claim(request) => self.claim(&request, &owner),
        }
    }

    fn require(&mut self, terms: &Terms, owner: &Owner) -> Result<()> {
        if let Some(expected) = terms.expect
            && expected != self.newest
        {
            return Err(self.mismatch(expected, self.newest));
        }
        if let Some(token) = &terms.claim {
            let now = (self.ledger.now)();
            let required = decide::require_token(&self.state()?.claims, owner, token, now);
            required.map_err(|refusal| self.ledger.refused(refusal, owner))?;
        }
        Ok(())
    }

    fn claim(&mut self, request: &ClaimRequest, owner: &Owner) -> Result<Appended> {
        let now = (self.ledger.now)();
        let before = self.state()?;
        let events = decide::decide(&before.claims, owner, request, now);
        let events = events.map_err(|refusal| self.ledger.refused(refusal, owner))?;
        let claims = &self.state()?.claims;
        let ended: Vec<Claim> = events
            .iter()
            .filter_map(|event| claims.get(&event.node_id))
            .collect();
        for event in &events {
            let prepared = self.ledger.prepare(&event.bytes())?;
            self.place(prepared)?;
        }
        let claims = match request.node() {
            Some(node) if !request.ends() => self
                .state()?
                .claims
                .get(node.as_str())
                .into_iter()
                .collect(),
            _ => ended,
        };
        Ok(Appended {
            events: events.len(),
            sequence: self.newest,
            claims,
        })
    }

    fn state(&mut self) -> Result<&mut State> {
        if self.state.is_none() {
            self.state = Some(self.ledger.state_at(self.newest)?);
        }
        Ok(self.state.as_mut().expect("it was just put there"))
    }

    /// Places one event: step 7. If it fails, the events after it are not tried.
    fn place(&mut self, prepared: Prepared) -> Result<()> {
        let placed = self.place_next(prepared);
        placed.inspect_err(|error| self.failed = Some(again(error)))
    }

    fn place_next(&mut self, mut prepared: Prepared) -> Result<()> {
        self.held.check()?;
        let next = self.newest + 1;
        let path = self.ledger.names.event(next);
        let failed = |source| Error::io("append", &path, source);
        // The identity comes from the open file: the name may belong to a stranger's file by the
        // next call.
        let identity = prepared.file.identity().map_err(failed)?;
        match prepared.put_in_place(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let actual = self.ledger.newest()?;
                return Err(self.mismatch(self.newest, actual));
            }
            placed => placed.map_err(failed)?,
        }
        self.placed.push((next, identity));
        self.newest = next;
        if let Some(state) = &mut self.state {
            state
                .apply(next, &prepared.bytes)
                .map_err(|problem| Error::corrupt(&path, problem))?;
        }
        Ok(())
    }

    /// Makes the placed events durable, checks that they are ours, and notes the newest: steps 8
    /// and 9.
    fn finish(self) -> Result<()> {
        let Some((newest, identity)) = self.placed.last().copied() else {
            self.ledger.remember(self.state);
            return Ok(());
        };
        let ledger = self.ledger.names.ledger();
        let synced = self.ledger.disk.sync_directory(ledger);
        synced.map_err(|source| Error::io("sync", ledger, source))?;
        self.held.check()?;
        for (sequence, identity) in &self.placed {
            let path = self.ledger.names.event(*sequence);
            let found = self.ledger.disk.identity(&path);
            if found.map_err(|source| Error::io("look at", path, source))? != Some(*identity) {
                return Err(self
                    .held
                    .lost("an event was replaced while it was appended"));
            }
        }
        self.ledger.write_note(newest, identity);
        self.ledger.remember(self.state);
        Ok(())
    }

    fn mismatch(&self, expected: u64, actual: u64) -> Error {
        let path = self.ledger.names.ledger().to_owned();
        let mismatch = LedgerError::SequenceMismatch {
            path,
            expected,
            actual,
        };
        mismatch.into()
    }
}

fn is_mismatch(error: &Error) -> bool {
    matches!(error.fault(), Some(LedgerError::SequenceMismatch { .. }))
}

/// Returns a copy of the error, for another request.
fn again(error: &Error) -> Error {
    match error {
        Error::Io {
            action,
            path,
            source,
        } => {
            let same = source.raw_os_error().map(io::Error::from_raw_os_error);
            Error::io(action, path, same.unwrap_or_else(|| source.kind().into()))
        }
        Error::Lost { context, reason } => Error::Lost {
            context: context.clone(),
            reason: reason.clone(),
        },
        Error::Corrupt { path, problem } => Error::corrupt(path, problem.clone()),
        other => match other.fault() {
            Some(LedgerError::SequenceMismatch {
                path,
                expected,
                actual,
            }) => {
                let (path, expected, actual) = (path.clone(), *expected, *actual);
                let mismatch = LedgerError::SequenceMismatch {
                    path,
                    expected,
                    actual,
                };
                mismatch.into()
            }
            _ => Error::Internal(other.to_string()),
        },
    }
}
