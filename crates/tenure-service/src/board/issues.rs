//! Issues: created, shown, changed, deleted.

use tenure::Result;
use tenure_api::board::{
    AddIssue, AddNote, DeleteIssue, DeletedIssues, DependIssue, Issues, SetIssue, ShowIssue,
};
use tenure_board::issue::Issue;

use crate::{Caller, Handle, Service};

impl Handle<AddIssue> for Service {
    async fn handle(&self, request: AddIssue, caller: &Caller) -> Result<Issues> {
        let AddIssue { board, issue } = request;
        let call = self.on_board_or_make(board.as_deref(), caller).await?;
        let id = issue.id.clone();
        let created = call.work(id.as_ref(), |board| board.create(issue)).await?;
        Ok(Issues::one(created.shown()))
    }
}

impl Handle<ShowIssue> for Service {
    async fn handle(&self, request: ShowIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let found = call.one_issue(request.issue, |board, id| board.issue(id));
        found.await
    }
}

impl Handle<AddNote> for Service {
    async fn handle(&self, request: AddNote, caller: &Caller) -> Result<Issues> {
        let AddNote { board, issue, text } = request;
        let call = self.on_board(board.as_deref(), caller)?;
        let noted = call.one_issue(issue, move |board, id| board.note(id, &text));
        noted.await
    }
}

impl Handle<DependIssue> for Service {
    async fn handle(&self, request: DependIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let (on, remove) = (request.on, request.remove);
        let changed = call.one_issue(request.issue, move |board, id| match remove {
            true => board.undepend(id, &on),
            false => board.depend(id, &on),
        });
        changed.await
    }
}

impl Handle<DeleteIssue> for Service {
    async fn handle(&self, request: DeleteIssue, caller: &Caller) -> Result<DeletedIssues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let deleted = call.work_on(request.issue, |board, id| {
            board.delete(id)?;
            Ok(id.clone())
        });
        let (deleted, next) = (vec![deleted.await?], None);
        Ok(DeletedIssues { deleted, next })
    }
}

impl Handle<SetIssue> for Service {
    async fn handle(&self, request: SetIssue, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let changed = call.one_issue(request.issue.clone(), move |board, id| {
            board.update(id, |issue| {
                set(issue, request.clone());
                Ok(())
            })
        });
        changed.await
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
