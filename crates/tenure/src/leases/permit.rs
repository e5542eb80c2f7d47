//! The check that a lease exists, and that the caller may act on it.
//!
//! Three checks are made. The first two cannot change while a lease is there.
//!
//! 1. If the caller names an owner, it is the owner of the lease.
//! 2. If the caller runs under a coding agent, that agent took the lease itself: no owner that an
//!    agent names makes it that owner.
//! 3. The lease is neither in the hands of a guard nor bound to a session.

use tenure_core::{Binding, Error, Lease, LeaseId, LeaseStore, Owner, Remedy, Result};

use crate::Keeper;
use crate::retry::retry;

/// Returns the lease interface of the store, or an error that names the command `act`.
pub(super) fn leases<'a>(keeper: &'a Keeper, act: &str) -> Result<&'a dyn LeaseStore> {
    let store = keeper.store();
    store.leases().ok_or_else(|| {
        Error::configuration(
            format!(
                "{} keeps no leases of their own, which `{act}` needs: every lock in it ends with \
                 its session",
                store.url()
            ),
            "use a store that has them, such as {.store} sqlite:PATH, or hold the lock with: {run}",
        )
    })
}

/// Looks a lease up. An unknown id and a lease that is over are different errors: a typing mistake
/// and a late call need different remedies.
pub(super) async fn find(keeper: &Keeper, lease: &LeaseId, act: &str) -> Result<Lease> {
    let leases = leases(keeper, act)?;
    let policy = keeper.retry();
    if let Some(found) = retry(policy, || leases.find(lease)).await? {
        return Ok(found);
    }
    match retry(policy, || leases.ended(lease)).await? {
        Some(reason) => Err(Error::over(lease, reason)),
        None => Err(Error::NotFound(format!(
            "there is no lease {lease} in {}",
            keeper.store().url()
        ))),
    }
}

/// Looks up a lease that is to be changed by its id. With no owner given the id suffices.
pub(super) async fn permit(
    keeper: &Keeper,
    lease: &LeaseId,
    act: &str,
    by: Option<&Owner>,
) -> Result<Lease> {
    let found = find(keeper, lease, act).await?;
    let refuse = |why: String, remedy: Remedy| {
        Error::not_allowed(
            format!("cannot {act} lease {lease} on {}: {why}", found.resource),
            remedy,
        )
    };
    let (pid, host, id) = (found.pid.to_string(), &*found.host, lease.as_str());
    if let Some(by) = by.filter(|by| **by != found.owner) {
        let why = format!("it belongs to {}, not to {by}", found.owner);
        let remedy = Remedy::of(
            "ask {}; a person may end it with: {break lease reason=TEXT}",
            &[found.owner.as_str(), id],
        );
        return Err(refuse(why, remedy));
    }
    check_agent(keeper, &found, act)?;
    let leases = leases(keeper, act)?;
    let in_hand = || retry(keeper.retry(), || leases.has_guard(lease));
    match found.binding {
        // Its holder would go on without noticing.
        Binding::Lease if in_hand().await? => {
            let why = format!("a guard of session {} has it in hand", found.session);
            let remedy = Remedy::of(
                "it ends with its guard (pid {} on {}), or when its time is over, or a person ends \
                 it with: {break lease reason=TEXT}",
                &[&pid, host, id],
            );
            Err(refuse(why, remedy))
        }
        Binding::Lease => Ok(found),
        Binding::Session => {
            let why = format!("it is bound to session {}", found.session);
            let remedy = Remedy::of(
                "it ends with its session (pid {} on {}), or a person ends it with: \
                 {break lease reason=TEXT}",
                &[&pid, host, id],
            );
            Err(refuse(why, remedy))
        }
    }
}

/// Refuses a coding agent that did not take the lease itself.
pub(super) fn check_agent(keeper: &Keeper, lease: &Lease, act: &str) -> Result<()> {
    match keeper.settings().automated.agent() {
        Some(agent) if !lease.may_be_changed_under(Some(agent)) => {
            Err(taken_by_another(agent, lease, act))
        }
        _ => Ok(()),
    }
}

/// Returns the error of a coding agent that did not take a lease itself.
pub(super) fn taken_by_another(agent: &Owner, lease: &Lease, act: &str) -> Error {
    let (id, resource, taker) = (&lease.lease, &lease.resource, lease.actor());
    Error::not_allowed(
        format!(
            "cannot {act} lease {id} on {resource}: {taker} took it, and this runs under the coding agent {agent}"
        ),
        format!("ask {}, or a person", lease.owner),
    )
}

/// Returns the actor of a change to a lease, for the audit.
pub(super) fn actor<'a>(keeper: &'a Keeper, lease: &'a Lease, by: Option<&'a Owner>) -> &'a Owner {
    let settings = keeper.settings();
    let named = by.or(settings.actor.as_ref());
    settings.automated.actor(named.unwrap_or(lease.actor()))
}
