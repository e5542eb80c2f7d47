//! Recovery of stale leases, and breaking of others.
//!
//! Recovery is always safe and needs no permission. Breaking is for people: it takes a lock from a
//! holder that may be alive.

use tenure_core::audit::REASON_BYTES_MAX;
use tenure_core::leases::{Finding, Recovery};
use tenure_core::{Error, Lease, LeaseId, Owner, Result};

use super::permit;
use crate::Keeper;
use crate::retry::retry;

impl Keeper {
    /// Recovers every stale lease, or only tells which ones could be. Always safe.
    pub async fn recover(&self, actor: &Owner, recovery: Recovery) -> Result<Vec<Finding>> {
        let leases = permit::leases(self, "recover")?;
        let actor = self.settings().automated.actor(actor);
        let policy = self.retry();
        let mut found = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = retry(policy, || leases.recover(actor, recovery, after.as_deref())).await?;
            found.extend(page.leases);
            after = page.next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    /// Begins to take a lease away from its holder, whatever it is bound to: it is revoking
    /// until the holder confirms its stop, or ten seconds.
    ///
    /// # Errors
    ///
    /// `NotAllowed` for an automated actor; `BadInput` for a reason that is missing or cannot be
    /// kept; `NotFound` and `LeaseOver` as [`find`](Keeper::find).
    pub async fn break_lease(&self, lease: &LeaseId, actor: &Owner, reason: &str) -> Result<Lease> {
        let leases = permit::leases(self, "break")?;
        let automated = &self.settings().automated;
        if automated.covers(actor) {
            return Err(Error::not_allowed(
                format!(
                    "{actor} may not break lease {lease}: {}",
                    automated.reason(actor)
                ),
                "breaking a lock is for people: ask one, or wait for it",
            ));
        }
        let reason = check_reason(reason)?;
        permit::find(self, lease, "break").await?;
        let policy = self.retry();
        retry(policy, || leases.break_lease(lease, actor, reason)).await
    }
}

fn check_reason(reason: &str) -> Result<&str> {
    let reason = reason.trim();
    let problem = if reason.is_empty() {
        "it is empty"
    } else if reason.len() > REASON_BYTES_MAX {
        "it is too long"
    } else if reason.chars().any(char::is_control) {
        "it holds a control character"
    } else {
        return Ok(reason);
    };
    Err(Error::BadInput(format!(
        "bad reason: {problem}; a reason is 1 to {REASON_BYTES_MAX} bytes of printable text"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_printable_text_of_a_length_people_read() {
        assert_eq!(check_reason(" host is gone ").unwrap(), "host is gone");
        for reason in [
            "",
            "  ",
            "a\nb",
            "\u{1b}[2J",
            &"x".repeat(REASON_BYTES_MAX + 1),
        ] {
            assert!(matches!(check_reason(reason), Err(Error::BadInput(_))));
        }
    }
}
