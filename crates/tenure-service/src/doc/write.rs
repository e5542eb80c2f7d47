//! Puts content in the place of a document.

use tenure::{Error, Result};
use tenure_api::doc::{OneOrSeveral, Write, Written};

use super::Change;
use crate::{Caller, Handle, Service};

impl Handle<Write> for Service {
    async fn handle(&self, request: Write, caller: &Caller) -> Result<OneOrSeveral<Written>> {
        let new = vec![request.content.0];
        let change = Change {
            files: vec![request.file],
            create: None,
            expect: request.expect,
            token: request.token,
            rebind: request.rebind,
            compat: request.compat,
            wait: request.wait,
        };
        let write = self.edit_documents(change, false, caller, |_| Ok::<_, Error>(new));
        write.await
    }
}
