//! Lists who has which node.

use tenure::Result;
use tenure_api::ledger::{Claims, ListClaims, ListedClaim};

use crate::waiting::blocking;
use crate::{Caller, Handle, Service};

impl Handle<ListClaims> for Service {
    async fn handle(&self, request: ListClaims, caller: &Caller) -> Result<Claims> {
        let ledger = super::open(&request.directory, caller)?;
        let listed = move || -> Result<Claims> {
            let claims = ledger.claims()?.into_iter();
            let now = ledger.time()?;
            let claims = claims.map(|claim| ListedClaim::at(claim, now)).collect();
            Ok(Claims { claims, next: None })
        };
        blocking(caller, listed).await
    }
}
