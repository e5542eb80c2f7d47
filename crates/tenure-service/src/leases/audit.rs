//! Reads the record of what was done to locks.

use tenure::Result;
use tenure::audit::{AuditPage, AuditQuery};
use tenure_api::leases::Audit;

use crate::{Caller, Handle, SLOT_KIND, Service};

impl Handle<Audit> for Service {
    async fn handle(&self, request: Audit, caller: &Caller) -> Result<AuditPage> {
        let resource = request.resource.as_ref();
        let of_slots = resource.is_some_and(|resource| resource.kind() == SLOT_KIND);
        let mut query = AuditQuery::default();
        query.resource = request.resource;
        query.since = request.since;
        query.limit = request.limit;
        query.after = request.after;
        let keeper = self.locks_or_slots(of_slots, caller).await?;
        keeper.audit(&query).await
    }
}
