//! The operations on coding agents: events of hooks, the list, the watcher, and the hooks in
//! settings.

pub mod hook;
mod install;
mod locks;
mod ls;
pub mod sandbox;
mod watch;

use std::path::Path;

use tenure::Keeper;
use tenure::config::{Commands, EditsUntil};
use tenure_os::platform::host_name;
use tenure_work::agents::claim_notes::ClaimNotes;
use tenure_work::agents::processor::Processor;
use tenure_work::agents::spool::Spool;

use crate::Service;
use crate::store_identity::identity;
pub(crate) use ls::listed;

impl Service {
    /// Returns the events that wait for this store, in the user's state directory.
    fn spool(&self, state: &Path) -> Spool {
        Spool::new(state, &identity(&self.located().url))
    }

    /// Returns the processor of the events of this project.
    fn processor<'a, L>(&self, keeper: &'a Keeper, locks: &'a L, state: &Path) -> Processor<'a, L> {
        let config = &self.located().config;
        Processor {
            keeper,
            locks,
            spool: self.spool(state),
            claim_notes: ClaimNotes::new(state),
            host: host_name(),
            releases_files_at_stop: config.guard.edits_until == EditsUntil::Turn,
            hides_commands: config.commands == Some(Commands::Name),
        }
    }
}
