//! `tenure break`: a person takes a lease away from its holder.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tenure::{Error, Keeper, Lease, LeaseId, clock, duration};
use tenure_core::decide::BREAK_MS;

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT, owner};
use crate::people::{can_ask, is_confirmed, record, run_unseen};
use crate::report::Failure;
use crate::{output, runtime};

const QUESTION: &str = "Its holder may still be at work. Break it? Type yes: ";

/// Shows the lease, asks, and breaks it.
pub fn break_lease(global: &Global, options: &cli::Break) -> Result<ExitCode, Failure> {
    if !options.yes && !can_ask() {
        return Err(Failure::usage(
            "there is no terminal to ask on, so break needs --yes",
            "look at the lease with tenure ls, and add --yes if you are sure",
        ));
    }
    let context = Context::new(global)?;
    let actor = owner(None)?;
    runtime::block_on(async {
        let keeper = where_it_is(&context, &options.lease).await?;
        // A store without leases says itself that it cannot break them.
        if keeper.store().leases().is_some() {
            let lease = keeper.find(&options.lease).await?;
            show(&lease);
            if !options.yes && !is_confirmed(QUESTION).map_err(Failure::Output)? {
                let message = format!("lease {} was not broken", lease.lease);
                return Err(Failure::Declined(message));
            }
        }
        let broken = keeper.break_lease(&options.lease, &actor, &options.reason);
        let broken = broken.await?;
        let answer = json!({ "leases": [broken] });
        output::answer(global.json, &answer, || output::text(&outcome(&broken)))
    })
}

/// Returns the store that has the lease: that of the locks, or that of the slots. An id is never
/// given twice, so it names one lease. The store of the slots is not made for this.
async fn where_it_is(context: &Context, lease: &LeaseId) -> tenure::Result<Keeper> {
    let locks = context.keeper(WAIT_DEFAULT).await?;
    if !matches!(locks.find(lease).await, Err(Error::NotFound(_))) {
        return Ok(locks);
    }
    if let Ok(Some(slots)) = context.slots_if_made().await
        && !matches!(slots.find(lease).await, Err(Error::NotFound(_)))
    {
        return Ok(slots);
    }
    // This store reports that there is no such lease.
    Ok(locks)
}

/// Shows everything known of the lease. It goes to standard error, where the question is.
fn show(lease: &Lease) {
    let unseen = match (run_unseen(lease), lease.command_pid) {
        (Some(unseen), Some(_)) => format!("  {unseen}\n  the break ends its command\n"),
        (Some(unseen), None) => format!("  {unseen}\n  the break does not end its command\n"),
        (None, _) => String::new(),
    };
    output::tell(&format!("{}{unseen}", record(lease)));
}

fn outcome(lease: &Lease) -> String {
    if let Some(pid) = lease.command_pid {
        let resource = &lease.resource;
        return format!("{resource} was broken, and its command, pid {pid}, was told to end\n");
    }
    let most = Duration::from_millis(BREAK_MS);
    format!(
        "{} is revoking: others are granted once its holder confirms that it stopped, \
         at the latest at {} ({})\n",
        lease.resource,
        clock::now().after(most),
        duration::show(most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::tests::lease;

    #[test]
    fn the_outcome_says_what_happens_next_and_when() {
        let said = outcome(&lease("x"));
        assert!(said.starts_with("name:x is revoking"), "{said}");
        assert!(
            said.contains("at the latest at 2") && said.contains("(10s)"),
            "{said}"
        );
    }
}
