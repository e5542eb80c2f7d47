//! Makes an issue depend on another, or no longer.

use tenure::Result;
use tenure_api::board::{DependIssue, Issues};

use crate::{Caller, Handle, Service};

impl Handle<DependIssue> for Service {
    async fn handle(&self, request: DependIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let (on, remove) = (request.on, request.remove);
        let changed = call.work_on(request.issue, move |board, id| match remove {
            true => board.undepend(id, &on),
            false => board.depend(id, &on),
        });
        Ok(Issues::one(changed.await?.shown()))
    }
}
