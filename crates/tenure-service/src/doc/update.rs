//! Changes a document, whose layout stays as it was.

use tenure::{Error, Result};
use tenure_api::doc::{Expect, OneOrSeveral, Update, Written};
use tenure_files::document::check_json;

use super::Change;
use crate::{Caller, Handle, Service};

impl Handle<Update> for Service {
    async fn handle(&self, request: Update, caller: &Caller) -> Result<OneOrSeveral<Written>> {
        let new = request.content.0;
        let what = || format!("the new content of {}", request.file.display());
        check_json(&new, what).map_err(Error::BadInput)?;
        let may_be_missing = request.expect == Some(Expect::Absent);
        let change = Change {
            files: vec![request.file],
            create: may_be_missing.then(String::new),
            expect: request.expect,
            token: request.token,
            rebind: request.rebind,
            compat: request.compat,
            wait: request.wait,
        };
        let changed = self.change_documents(change, caller, |_| Ok::<_, Error>(vec![new]));
        changed.await
    }
}
