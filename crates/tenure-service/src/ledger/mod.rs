//! The operations on ledgers.

mod claims;
mod events;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure::{Mode, Result};
use tenure_api::ledger::{Init, Made, Verified, Verify};
use tenure_api::text::Span;
use tenure_ledger::{Confirmed, Ledger};

use crate::waiting::{FileWait, WaitTeller, blocking, for_files};
use crate::{Caller, Handle, Service, WAIT_DEFAULT};
pub use events::FollowedLedger;

impl Handle<Init> for Service {
    async fn handle(&self, request: Init, caller: &Caller) -> Result<Made> {
        let ledger = request.directory.display().to_string();
        let claim_ttl = request.claim_ttl.map(|ttl| ttl.0);
        blocking(caller, move || Ledger::init(&request.directory, claim_ttl)).await?;
        Ok(Made { ledger })
    }
}

impl Handle<Verify> for Service {
    async fn handle(&self, request: Verify, caller: &Caller) -> Result<Verified> {
        let ledger = open(&request.directory, caller)?;
        let verify = move || match (request.repair, request.confirmed) {
            (false, _) => ledger.verify(),
            (true, false) => ledger.repair(Confirmed::No),
            (true, true) => ledger.repair(Confirmed::Yes),
        };
        blocking(caller, verify).await
    }
}

/// Opens a ledger that is only read, or repaired.
fn open(directory: &Path, caller: &Caller) -> Result<Ledger> {
    let observer = Arc::clone(caller.observer());
    let ledger = Ledger::open(directory, WAIT_DEFAULT)?;
    Ok(ledger.with_messages(move |text| observer.word(text)))
}

/// A ledger that is open for a call that writes.
struct OpenLedger {
    ledger: Ledger,
    wait: FileWait,
    teller: WaitTeller,
}

impl OpenLedger {
    /// Does work that waits for the lock of the ledger.
    async fn wait<T: Send + 'static>(
        self,
        work: impl FnOnce(&Ledger) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        for_files(&self.wait, &self.teller, move || work(&self.ledger)).await
    }
}

impl Service {
    /// Opens a ledger for a call that changes it, and that may claim a node for `ttl`.
    fn ledger(
        &self,
        directory: &Path,
        wait: Option<Span>,
        ttl: Option<Duration>,
        caller: &Caller,
    ) -> Result<OpenLedger> {
        let limit = self.limit(caller, wait.map(|it| it.0), WAIT_DEFAULT, ttl)?;
        let limit = limit.whole();
        let teller = WaitTeller::new(caller);
        let file_caller = self.file_caller(caller, limit, &teller);
        let mut ledger = open(directory, caller)?;
        if self.trusts_file_systems() {
            ledger = ledger.trusting_the_file_system();
        }
        let ledger = ledger.for_caller(&file_caller);
        let queue = ledger.queue_lock();
        let place = queue.parent().unwrap_or(&queue).to_owned();
        let wait = FileWait {
            files: vec![(place, queue)],
            mode: Mode::Write,
            limit,
            session: file_caller.asker.session,
            with_node: false,
            inner_lock: Some(ledger.shared_lock()),
        };
        Ok(OpenLedger {
            ledger,
            wait,
            teller,
        })
    }
}
