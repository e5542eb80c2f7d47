//! Takes locks that outlive the call.

use tenure::leases::{LeaseTerms, TTL_DEFAULT};
use tenure::{Error, LockSet, Options, Result};
use tenure_api::leases::{Acquire, Leases};
use tenure_api::text::Slot;

use crate::around::Ancestors;
use crate::waiting::{Wait, wait};
use crate::{Caller, Handle, NAMES_BYTES_MAX, RESOURCES_MAX, Service, WAIT_DEFAULT};

impl Handle<Acquire> for Service {
    async fn handle(&self, request: Acquire, caller: &Caller) -> Result<Leases> {
        check(&request)?;
        let ttl = request.ttl.map_or(TTL_DEFAULT, |ttl| ttl.0);
        let asked = request.wait.map(|wait| wait.0);
        let limit = self.limit(caller, asked, WAIT_DEFAULT, Some(ttl))?;
        let first = request.resources.first().map(|wanted| &wanted.resource);
        let keeper = self.locks_within(caller, limit, first).await?;
        let ancestors = Ancestors::proved(caller.around().clone(), Some(&keeper), None).await?;
        let session = caller.session().with_ancestors(ancestors.held());
        let session = keeper.session(session);
        let wanted = request.resources.into_iter();
        let wanted = wanted.map(|it| (it.resource, it.mode.unwrap_or(request.mode)));
        let set = LockSet::new(&keeper.settings().ranking, wanted);
        let mut terms = LeaseTerms::default().with_ttl(ttl);
        terms.key = request.key;
        let mut options = Options::default().with_wait(limit.left());
        options.purpose = request.purpose;
        options.metadata = request.metadata;
        let about = Wait {
            session: &session,
            set: &set,
            limit: limit.whole(),
            slots: None,
            own: None,
        };
        let asking = Box::pin(keeper.lock(&session, &set, &terms, &options));
        let taken = wait(asking, about, caller).await;
        let leases = taken.map_err(|error| limit.whole_in(error))?;
        Ok(Leases { leases })
    }
}

fn check(request: &Acquire) -> Result<()> {
    let names = request
        .resources
        .iter()
        .map(|it| it.resource.as_str().len());
    let (number, bytes) = (request.resources.len(), names.sum::<usize>());
    if number > RESOURCES_MAX || bytes > NAMES_BYTES_MAX {
        return Err(Error::BadInput(format!(
            "one request takes at most {RESOURCES_MAX} resources, with names of at most \
             {NAMES_BYTES_MAX} bytes together; these are {number} with {bytes} bytes"
        )));
    }
    let mut resources = request.resources.iter().map(|wanted| &wanted.resource);
    match resources.find(|resource| Slot::is_kind_of(resource)) {
        Some(slot) => {
            let kind = slot.kind();
            Err(Error::BadInput(format!("{slot} is a {kind}, and no lock")))
        }
        None => Ok(()),
    }
}
