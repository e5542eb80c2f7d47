//! Who may approve, and what an approval is of.
//!
//! An approval is of exactly one thing: the digest of what is asked for. Contents of files are not
//! in it. What is proved is the user id of the approver's process; the owner is what that process
//! says of itself.

use serde::Serialize;
use sha2::{Digest, Sha256};
use tenure::{Automated, Owner};
use tenure_api::jobs::Approval;

use super::job::{Job, Spec};

/// The reason why an approval is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoApproval {
    /// The approver is no person.
    #[error("{0} may not approve: {1}")]
    Automated(Owner, String),
    /// The approver asked for it.
    #[error("{0} asked for it, and another person has to approve it")]
    Creator(Owner),
    /// The approver has approved it before.
    #[error("{0} has approved it already, and a second person has to")]
    Again(Owner),
    /// The approvers are one user of the machine under two names.
    #[error("{0} has the user id {1}, as {2} has, who approved it before")]
    SameUser(Owner, u32, Owner),
}

/// Refuses an approval that does not count.
///
/// # Errors
///
/// The reason.
pub fn check(
    creator: &Owner,
    given: &[Approval],
    approval: &Approval,
    automated: &Automated,
) -> Result<(), NoApproval> {
    let owner = &approval.owner;
    if automated.covers(owner) {
        let reason = automated.reason(owner);
        return Err(NoApproval::Automated(owner.clone(), reason.to_string()));
    }
    if owner == creator {
        return Err(NoApproval::Creator(owner.clone()));
    }
    if given.iter().any(|other| other.owner == *owner) {
        return Err(NoApproval::Again(owner.clone()));
    }
    match given.iter().find(|other| other.uid == approval.uid) {
        Some(other) => {
            let (uid, other) = (approval.uid, other.owner.clone());
            Err(NoApproval::SameUser(owner.clone(), uid, other))
        }
        None => Ok(()),
    }
}

/// Returns the digest of what people are asked to approve.
pub fn digest(spec: &Spec) -> String {
    /// What an approval is of, in the order in which it is hashed.
    #[derive(Serialize)]
    struct Approved<'a> {
        command: &'a [String],
        directory: &'a std::path::Path,
        environment: &'a std::collections::BTreeMap<String, String>,
        operation: &'a Option<(String, std::collections::BTreeMap<String, String>)>,
        locks: &'a [String],
        class: &'a str,
        limits: &'a tenure_run::shim::Limits,
        labels: &'a std::collections::BTreeSet<String>,
        creator: &'a Owner,
    }
    let approved = Approved {
        command: &spec.command,
        directory: &spec.directory,
        environment: &spec.environment,
        operation: &spec.operation,
        locks: &spec.locks,
        class: &spec.place.class,
        limits: &spec.limits,
        labels: &spec.labels,
        creator: &spec.creator,
    };
    let text = serde_json::to_vec(&approved).expect("it has text keys and no other maps");
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Job {
    /// Returns the digest of what people approve in it.
    pub fn digest(&self) -> String {
        digest(&self.spec)
    }
}
