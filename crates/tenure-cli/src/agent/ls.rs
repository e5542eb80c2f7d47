//! `tenure agent ls`.

use std::process::ExitCode;

use serde_json::json;
use tenure_work::agents::claim_notes::ClaimNotes;

use super::{FREE, agents, table};
use crate::cli::{AgentLs, Global};
use crate::context::{Context, WAIT_DEFAULT};
use crate::output::{self, word};
use crate::report::Failure;
use crate::runtime;
use tenure_service::service::missing;

/// Shows the agents.
pub fn ls(global: &Global, options: &AgentLs) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    runtime::block_on(async {
        let notes = ClaimNotes::new(&context.state_directory()?);
        // Looking makes no store.
        let agents = match missing(&context.located.url) {
            Some(_) => Vec::new(),
            None => {
                let keeper = context.keeper(WAIT_DEFAULT).await?;
                let slots = context.slots_if_made().await?;
                agents(&keeper, slots.as_ref(), &notes, options.all).await?
            }
        };
        let document = json!({ "agents": agents, "next": null });
        output::answer(global.json, &document, || {
            if agents.is_empty() {
                word(match options.all {
                    true => "no agent is known here: tenure agent install shows how they report",
                    false => {
                        "no agent is at work here: --all shows those that are done or gone, \
                         and tenure agent install how agents report"
                    }
                });
            }
            table(&agents).print(&FREE)
        })
    })
}
