//! Notes of the claims of coding agents, so that their hooks renew them.

use std::path::{Path, PathBuf};

use tenure::{Owner, Result, Timestamp, clock};
use tenure_work::agents::claim_notes::{ClaimNote, ClaimNotes, ClaimedIn};

use crate::waiting::blocking;
use crate::{Caller, Service};

impl Service {
    /// Remembers a claim that was just made or renewed, if an agent has it: where it is, its id,
    /// its token and its end. If that fails, hooks do not renew the claim, and it ends at its time.
    pub(crate) async fn remember_claim(
        &self,
        (kind, directory): (ClaimedIn, &Path),
        (id, token, expires_at): (&str, u64, Timestamp),
        caller: &Caller,
    ) {
        let now = clock::now();
        let claim = ClaimNote {
            kind,
            directory: absolute(directory),
            id: id.to_owned(),
            token,
            ttl_ms: u64::try_from(expires_at.since(now).as_millis()).unwrap_or(u64::MAX),
            renewed_at: now,
        };
        let add = move |notes: &ClaimNotes, owner: &Owner| notes.add(owner, claim);
        if let Err(error) = self.change_claim_notes(caller, add).await {
            let word = format!("hooks will not renew this claim: {error}");
            caller.observer().word(&word);
        }
    }

    /// Forgets a claim that was just ended, if an agent had it. If that fails, the note is dropped
    /// when a hook tries to renew the claim.
    pub(crate) async fn forget_claim(
        &self,
        (kind, directory): (ClaimedIn, &Path),
        id: &str,
        caller: &Caller,
    ) {
        let (directory, id) = (absolute(directory), id.to_owned());
        let forget =
            move |notes: &ClaimNotes, owner: &Owner| notes.forget(owner, kind, &directory, &id);
        if let Err(error) = self.change_claim_notes(caller, forget).await {
            let word = format!("the list of agents may show this claim for a while: {error}");
            caller.observer().word(&word);
        }
    }

    async fn change_claim_notes(
        &self,
        caller: &Caller,
        change: impl FnOnce(&ClaimNotes, &Owner) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        if !caller.owner().as_str().starts_with("agent:") {
            return Ok(());
        }
        let notes = ClaimNotes::new(&self.state_directory()?);
        let owner = caller.owner().clone();
        blocking(caller, move || change(&notes, &owner)).await
    }
}

fn absolute(directory: &Path) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}
