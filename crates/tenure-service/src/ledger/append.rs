//! Appends an event.

use tenure::Result;
use tenure_api::ledger::{Append, Appended};
use tenure_ledger::AppendTerms;

use crate::{Caller, Handle, Service};

impl Handle<Append> for Service {
    async fn handle(&self, request: Append, caller: &Caller) -> Result<Appended> {
        let token = request.token.as_deref().map(str::parse);
        let terms = AppendTerms {
            expect: request.expect,
            claim: token.transpose()?,
        };
        let ledger = self.ledger(&request.directory, request.wait, None, caller)?;
        let event = request.event.0;
        let sequence = ledger.wait(move |ledger| ledger.append_on(&event, terms));
        sequence.await.map(|sequence| Appended { sequence })
    }
}
