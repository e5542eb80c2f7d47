//! `tenure renew`: gives leases new time.

use std::process::ExitCode;

use tenure::Lease;

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT, owner_given};
use crate::people::ago;
use crate::report::Failure;
use crate::runtime;
use crate::several::Several;

/// Renews every lease that can be.
pub fn renew(global: &Global, options: cli::Renew) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let by = owner_given(options.by.owner)?;
    runtime::block_on(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let mut several = Several::default();
        for lease in &options.leases {
            let renewed = keeper.renew(lease, options.ttl, by.as_ref()).await;
            several.note(lease.as_str(), renewed);
        }
        several.report(global.json, in_words)
    })
}

/// `renewed l1: name:x is held until 2026-01-31T12:00:00.000Z (in 15m 00s)`.
fn in_words(lease: &Lease) -> String {
    let until = match lease.expires_at {
        Some(at) => format!("until {at} ({})", ago(at)),
        None => "until it is released".into(),
    };
    format!(
        "renewed {}: {} is held {until}",
        lease.lease, lease.resource
    )
}
