//! The agent's side of leases of their own.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tenure::leases::LeaseTerms;
use tenure::store::Asker;
use tenure::{Error, IdempotenceKey, Keeper, Lease, LockSet, Owner, Session};
use tenure_core::LeaseStore;
use tenure_core::audit::AuditQuery;
use tenure_core::leases::Recovery;
use tenure_core::records::{Changes, Columns, RecordChange, RecordKey, Seen};

use super::lease_words::LeaseCommand;
use super::obey::options;
use super::words::{Answer, Notes};

/// Carries out a command about leases.
pub(super) async fn tend(session: &Session, command: LeaseCommand) -> tenure::Result<Answer> {
    let keeper = session.keeper();
    match command {
        LeaseCommand::Lock {
            items,
            ttl,
            wait,
            key,
        } => {
            let set = LockSet::new(&keeper.settings().ranking, items);
            let key = key.map(|key| IdempotenceKey::parse(&key).unwrap());
            let mut terms = LeaseTerms::default().with_ttl(ttl);
            terms.key = key;
            let options = options(wait, Notes::default());
            let leases = keeper.lock(session, &set, &terms, &options).await?;
            Ok(Answer::Granted { leases })
        }
        LeaseCommand::Find { lease } => keeper.find(&lease).await.map(changed),
        LeaseCommand::Renew { lease, ttl, by } => {
            let by = owner(by);
            let renewed = keeper.renew(&lease, ttl, by.as_ref()).await;
            renewed.map(changed)
        }
        LeaseCommand::Release { lease, by } => {
            let by = owner(by);
            keeper.release(&lease, by.as_ref()).await?;
            Ok(Answer::Done)
        }
        LeaseCommand::Upgrade { lease, wait, by } => {
            let by = owner(by);
            let upgraded = keeper.upgrade(session, &lease, Some(wait), by.as_ref());
            upgraded.await.map(changed)
        }
        LeaseCommand::Downgrade { lease, by } => {
            let by = owner(by);
            let downgraded = keeper.downgrade(&lease, by.as_ref()).await;
            downgraded.map(changed)
        }
        LeaseCommand::Check { resource, token } => {
            keeper.check(&resource, token).await?;
            Ok(Answer::Done)
        }
        LeaseCommand::Break { lease, reason } => {
            let broken = keeper.break_lease(&lease, session.owner(), &reason);
            broken.await.map(changed)
        }
        LeaseCommand::Recover => {
            let found = keeper.recover(session.owner(), Recovery::Real);
            Ok(told(found.await?))
        }
        LeaseCommand::Audit { resource } => {
            let query = AuditQuery::default().with_resource(resource);
            Ok(told(keeper.audit(&query).await?.entries))
        }
        LeaseCommand::Claim { lease, claimant } => {
            let asker = asker(session);
            leases(keeper)?.claim(&lease, &claimant, &asker).await?;
            Ok(Answer::Done)
        }
        LeaseCommand::Increment { id, times } => {
            let mut longest = 0;
            for _ in 0..times {
                let begun = std::time::Instant::now();
                increment(keeper, &id).await?;
                longest = longest.max(begun.elapsed().as_millis());
            }
            Ok(told(longest as u64))
        }
        LeaseCommand::Unclaim { lease, claimant } => {
            leases(keeper)?.unclaim(&lease, &claimant).await?;
            Ok(Answer::Done)
        }
    }
}

/// Adds one to a record, and makes it if it is missing. Returns its new number.
pub(crate) async fn increment(keeper: &Keeper, id: &str) -> tenure::Result<u64> {
    let key = RecordKey::new("counter", id)?;
    let add = |seen: &Seen| {
        let before = seen
            .get(&key)
            .map_or(0, |record| record.body.as_u64().unwrap());
        let mut changes = Changes::default();
        changes.put(key.clone(), Columns::default(), Value::from(before + 1));
        Ok(changes)
    };
    let change = RecordChange::new([key.clone()], &add);
    let written = keeper.records("a test")?.change(&change).await?;
    Ok(written[0].body.as_u64().unwrap())
}

fn changed(lease: Lease) -> Answer {
    Answer::Changed {
        lease: Box::new(lease),
    }
}

fn told(list: impl Serialize) -> Answer {
    let list: Value = serde_json::to_value(list).unwrap();
    Answer::Told { list }
}

fn owner(text: Option<String>) -> Option<Owner> {
    text.map(|text| Owner::parse(&text).unwrap())
}

fn leases(keeper: &Keeper) -> tenure::Result<&dyn LeaseStore> {
    let none = || Error::Internal("this store has no leases of their own".into());
    tenure::internal::store(keeper).leases().ok_or_else(none)
}

/// Returns the claimant: the session of the agent, as the keeper would put it.
fn asker(session: &Session) -> Arc<Asker> {
    Arc::new(Asker {
        session: session.id().clone(),
        owner: session.owner().clone(),
        pid: std::process::id(),
        host: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        command: "agent".into(),
        agent: None,
    })
}
