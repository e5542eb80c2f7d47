//! Changes fields of an issue.

use tenure::Result;
use tenure_api::board::{Issues, SetIssue};
use tenure_board::issue::Issue;

use crate::{Caller, Handle, Service};

impl Handle<SetIssue> for Service {
    async fn handle(&self, request: SetIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let changed = call.work_on(request.issue.clone(), move |board, id| {
            board.update(id, |issue| {
                set(issue, request.clone());
                Ok(())
            })
        });
        Ok(Issues::one(changed.await?.shown()))
    }
}

fn set(issue: &mut Issue, request: SetIssue) {
    fn put<T>(field: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *field = value;
        }
    }
    put(&mut issue.title, request.title);
    put(&mut issue.body, request.body);
    put(&mut issue.priority, request.priority);
    put(&mut issue.labels, request.labels);
    put(&mut issue.state, request.state);
}
