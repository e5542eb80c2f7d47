//! The claims of coding agents, remembered so that their hooks renew them.

use std::path::{Path, PathBuf};

use tenure::{Error, Owner, Result, Timestamp, clock};
use tenure_work::agents::claim_notes::{ClaimNote, ClaimNotes, ClaimedIn};

use crate::{Caller, Service};

impl Service {
    /// Remembers a claim that was just made or renewed, if an agent has it. One that cannot be
    /// remembered lasts for its time.
    pub(crate) fn remember(
        &self,
        (kind, directory): (ClaimedIn, &Path),
        (id, token): (&str, u64),
        expires_at: Timestamp,
        caller: &Caller,
    ) {
        if !is_agent(caller.owner()) {
            return;
        }
        let now = clock::now();
        let remembered = || {
            let claim = ClaimNote {
                kind,
                directory: absolute(directory)?,
                id: id.to_owned(),
                token,
                ttl_ms: u64::try_from(expires_at.since(now).as_millis()).unwrap_or(u64::MAX),
                renewed_at: now,
            };
            ClaimNotes::new(&self.state_directory()?).add(caller.owner(), claim)
        };
        if let Err(error) = remembered() {
            let word = format!("hooks will not renew this claim: {error}");
            caller.observer().word(&word);
        }
    }

    /// Forgets a claim that was just ended, if an agent had it. One that cannot be forgotten is
    /// dropped when it is to be renewed.
    pub(crate) fn forget(&self, (kind, directory): (ClaimedIn, &Path), id: &str, caller: &Caller) {
        let owner = caller.owner();
        if !is_agent(owner) {
            return;
        }
        let forgotten = || {
            let notes = ClaimNotes::new(&self.state_directory()?);
            notes.forget(owner, kind, &absolute(directory)?, id)
        };
        if let Err(error) = forgotten() {
            let word = format!("tenure agent ls may show this claim for a while: {error}");
            caller.observer().word(&word);
        }
    }
}

fn is_agent(owner: &Owner) -> bool {
    owner.as_str().starts_with("agent:")
}

fn absolute(directory: &Path) -> Result<PathBuf> {
    let found = std::path::absolute(directory);
    found.map_err(|source| Error::io("find", directory, source))
}
