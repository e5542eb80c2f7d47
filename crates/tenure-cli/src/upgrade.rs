//! `tenure upgrade` and `tenure downgrade`: make a lease exclusive, and shared again.

use std::process::ExitCode;

use serde_json::json;
use tenure::{LockSet, Mode, SessionOptions};
use tenure_run::Signals;

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT, owner_given};
use crate::limit;
use crate::report::Failure;
use crate::waiting::{Wait, wait};
use crate::{output, runtime};

/// Makes an upgradeable lease exclusive.
pub fn upgrade(global: &Global, options: cli::Upgrade) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let by = owner_given(options.by.owner)?;
    runtime::block_on(async {
        let asked = limit::asked(options.no_wait, options.wait);
        let (owner, limit) = context.owner_and_limit(by.clone(), asked, WAIT_DEFAULT, None)?;
        let keeper = context.keeper_within(WAIT_DEFAULT, limit).await?;
        let mut signals = Signals::listen()?;
        // Looked up first, so that a wait can tell what it is for. A store without leases says
        // itself that it cannot upgrade them.
        let before = match keeper.store().leases() {
            Some(_) => Some(keeper.find(&options.lease).await?),
            None => None,
        };
        let set = before.map(|before| (before.resource, Mode::Write));
        let set = LockSet::new(&keeper.settings().ranking, set);
        let session = SessionOptions::new(owner).with_command(context.own_command());
        let session = keeper.session(session).await?;
        let about = Wait {
            session: &session,
            set: &set,
            limit: limit.whole(),
            slots: None,
            own: Some(&options.lease),
        };
        let asking = keeper.upgrade(&session, &options.lease, Some(limit.left()), by.as_ref());
        let upgraded = wait(asking, about, &mut signals).await;
        let lease = upgraded.map_err(|error| limit.whole_in(error))?;
        output::answer(global.json, &json!({ "leases": [lease] }), || {
            output::text(&format!(
                "upgraded {}: {} is held for {}, with the new token {}\n",
                lease.lease, lease.resource, lease.mode, lease.token
            ))
        })
    })
}

/// Makes an upgraded lease upgradeable again.
pub fn downgrade(global: &Global, options: cli::Downgrade) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let by = owner_given(options.by.owner)?;
    runtime::block_on(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let lease = keeper.downgrade(&options.lease, by.as_ref()).await?;
        output::answer(global.json, &json!({ "leases": [lease] }), || {
            output::text(&format!(
                "downgraded {}: {} is held for {} again\n",
                lease.lease, lease.resource, lease.mode
            ))
        })
    })
}
