//! `tenure release`: ends leases.

use std::process::ExitCode;

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT, owner_given};
use crate::report::Failure;
use crate::runtime;
use crate::several::Several;

/// Releases every lease that can be.
pub fn release(global: &Global, options: cli::Release) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let by = owner_given(options.by.owner)?;
    runtime::block_on(async {
        let keeper = context.keeper(WAIT_DEFAULT).await?;
        let mut several = Several::default();
        for lease in &options.leases {
            several.note(lease, keeper.release(lease, by.as_ref()).await);
        }
        several.report(global.json, |lease| {
            format!("released {}: {}", lease.lease, lease.resource)
        })
    })
}
