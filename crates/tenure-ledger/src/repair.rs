//! Mending a ledger, under its lock. Everything that is taken out is kept.
//!
//! # A missing event
//!
//! The missing number was an event's, and perhaps a token. So the number never comes again, and
//! nothing behind it is moved: an event that says `event_missing` takes its place. An event that
//! cannot be read gets a second name first, so that its number is free at no moment. *Crash:* the
//! next repair fills the numbers that are left.
//!
//! The lost event may have ended or changed any earlier claim, or only claims on its node if that
//! can still be read. Replaying `event_missing` ends all of these, so that no owner acts on them.
//! Then `lock_reaped` is appended for each, as the replay of other programs knows only that.
//! *Crash:* the next claim or reap does it.

use std::path::Path;

use tenure_api::Finding;
use tenure_api::ledger::{Claim, Verified};
use tenure_core::{Error, Result};
use tenure_os::replace::{Replacement, sync_directory_of};

use super::decide::ClaimRequest;
use super::event::{self, seconds};
use super::lock::{self, LedgerLock, STALE};
use super::names::aside;
use super::verify::{Cure, Flaw};
use super::{Ledger, names::Form};

/// A person's consent, after a look at the findings, to repairs that a program cannot be sure of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// Only files that are in the way of no program are taken out.
    No,
    /// Missing events are marked as such, claims that may be over are ended, and a lock of another
    /// program that is older than 30 s is moved aside.
    Yes,
}

impl Ledger {
    /// Looks at every file, and repairs what can be repaired. The findings say what was done.
    ///
    /// A foreign lock is moved aside first, under a lock of its own. If the wait for the second
    /// lock is cancelled or times out, the foreign lock stays moved, and a second call does the
    /// rest.
    pub fn repair(&self, confirmed: Confirmed) -> Result<Verified> {
        let mut done = Vec::new();
        if confirmed == Confirmed::Yes {
            done.extend(self.take_out_foreign_lock()?);
        }
        let is_curable = |flaw: &Flaw| flaw.cure.is_allowed(confirmed);
        if self.names.form == Form::Seed && self.flaws()?.flaws.iter().any(is_curable) {
            let held = self.lock(lock::deadline(self))?;
            let mut flaws = self.flaws()?.flaws;
            flaws.retain(is_curable);
            for flaw in &mut flaws {
                held.check()?;
                self.cure(flaw)?;
            }
            let ledger = self.names.ledger();
            let synced = self.disk.sync_directory(ledger);
            synced.map_err(|source| Error::io("sync", ledger, source))?;
            let has = |cure: Cure| flaws.iter().any(|flaw| flaw.cure == cure);
            let (fills, ends) = (has(Cure::Fill), has(Cure::End));
            let findings = flaws.into_iter().map(|flaw| flaw.finding);
            done.extend(findings.filter(|finding| finding.repaired));
            if fills {
                // The claims remembered from before do not know that an event is missing.
                self.forget()?;
            }
            if fills || ends {
                done.extend(self.end_claims(&held)?);
            }
        }
        let mut after = self.verify()?;
        let left = after.findings.into_iter();
        after.findings = done.into_iter().chain(left).collect();
        Ok(after)
    }

    fn take_out_foreign_lock(&self) -> Result<Option<Finding>> {
        let held = self.queue(lock::deadline(self))?;
        let Some(foreign) = self.foreign_lock()?.filter(|foreign| foreign.age > STALE) else {
            return Ok(None);
        };
        Ok(held.take_out(&foreign)?.map(|kept| Finding {
            file: "ledger.lock".into(),
            problem: foreign.holder,
            repair: format!("it was moved to {}", kept.display()).into(),
            repaired: true,
        }))
    }

    fn cure(&self, flaw: &mut Flaw) -> Result<()> {
        let finding = &mut flaw.finding;
        let path = self.names.ledger().join(&finding.file);
        let failed = |source| Error::io("repair", &path, source);
        match flaw.cure {
            Cure::Remove => {
                self.disk.remove(&path).map_err(failed)?;
                finding.repair = "it was removed".into();
            }
            Cure::MoveAside => {
                let to = aside(&path);
                let moved = self.disk.rename_without_replacing(&path, &to);
                moved.map_err(failed)?;
                finding.repair = format!("it was moved to {}", to.display()).into();
            }
            Cure::Fill => finding.repair = self.fill(&path, flaw.node.as_deref())?.into(),
            Cure::None | Cure::TakeOut | Cure::End => return Ok(()),
        }
        finding.repaired = true;
        Ok(())
    }

    /// Puts `event_missing` in the place of an event, and returns a sentence that says so.
    fn fill(&self, path: &Path, node: Option<&str>) -> Result<String> {
        let failed = |source| Error::io("repair", path, source);
        let event = event::missing(node);
        let prepared = Replacement::prepare(&*self.disk, path, &event, None)?;
        if !self.disk.exists(path).map_err(failed)? {
            prepared.put_in_place_if_missing()?;
            return Ok("event_missing was put in its place".into());
        }
        let kept = aside(path);
        self.disk.link(path, &kept).map_err(failed)?;
        sync_directory_of(&*self.disk, path)?;
        prepared.put_in_place()?;
        let kept = kept.display();
        Ok(format!(
            "event_missing was put in its place; it was moved to {kept}"
        ))
    }

    /// Reaps the claims that are over because an event is missing, and those that last too long.
    fn end_claims(&self, held: &LedgerLock<'_>) -> Result<Vec<Finding>> {
        let mut ended = Vec::new();
        loop {
            let request = self.about_claims(ClaimRequest::End);
            let answers = self.write_together(held, vec![request]);
            let reaped = answers.into_iter().collect::<Result<Vec<_>>>()?;
            let reaped: Vec<Claim> = reaped.into_iter().flat_map(|one| one.claims).collect();
            if reaped.is_empty() {
                return Ok(ended);
            }
            ended.extend(reaped.iter().map(|claim| self.ended(claim)));
        }
    }

    fn ended(&self, claim: &Claim) -> Finding {
        let Claim {
            node,
            owner,
            token,
            acquired_at,
            ..
        } = claim;
        Finding {
            file: self.name_of(*token),
            problem: format!(
                "{owner} claimed {node}#{token} at {}",
                seconds(*acquired_at)
            ),
            repair: "the claim was ended; claim the node again".into(),
            repaired: true,
        }
    }
}

impl Cure {
    fn is_allowed(self, confirmed: Confirmed) -> bool {
        match self {
            Cure::MoveAside | Cure::Remove => true,
            Cure::Fill | Cure::End => confirmed == Confirmed::Yes,
            Cure::None | Cure::TakeOut => false,
        }
    }
}
