//! Lists the issues of a board, filtered as the request says.

use std::collections::HashMap;

use tenure::Result;
use tenure_api::board::{Blocked, IssueId, IssueListing, IssueState, ListIssues};
use tenure_board::issue::Issue;

use crate::{Caller, Handle, Service};

impl Handle<ListIssues> for Service {
    async fn handle(&self, request: ListIssues, caller: &Caller) -> Result<IssueListing> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let list = call.work(None, |board| {
            let list = board.list()?;
            let blocked = board.blocked(&list);
            Ok((list, blocked))
        });
        let (list, blocked) = list.await?;
        let issues = list.issues.iter();
        let issues = issues.filter(|issue| is_wanted(issue, &blocked, &request));
        Ok(IssueListing {
            issues: issues.map(Issue::shown).collect(),
            unreadable: if has_filter(&request) {
                Vec::new()
            } else {
                list.unreadable
            },
            next: None,
            blocked,
        })
    }
}

fn has_filter(request: &ListIssues) -> bool {
    let ListIssues {
        state,
        label,
        ready,
        owner,
        ..
    } = request;
    state.is_some() || label.is_some() || *ready || owner.is_some()
}

fn is_wanted(issue: &Issue, blocked: &HashMap<IssueId, Blocked>, request: &ListIssues) -> bool {
    let is_open = issue.state == IssueState::Open;
    let in_state = request.state.is_none_or(|state| issue.state == state);
    let label = request.label.as_ref();
    let has_label = label.is_none_or(|label| issue.labels.contains(label));
    let is_ready = !request.ready || is_open && !blocked.contains_key(&issue.id);
    let is_owners = request.owner.as_ref().is_none_or(|owner| {
        let claim = issue.claim.as_ref();
        claim.is_some_and(|claim| claim.owner == owner.as_str())
            && blocked.get(&issue.id) == Some(&Blocked::Claimed)
    });
    in_state && has_label && is_ready && is_owners
}
