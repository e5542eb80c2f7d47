//! The operations on boards.
//!
//! | file | what it does |
//! |---|---|
//! | `call` | a board that is open for one call: its place, its waits, what its caller may do |
//! | [`held`] | the claim of an issue while a command runs |
//! | [`events`] | the events of a board: those that are there, and those to come |
//! | the others | the operations on issues, claims and gates; those on a whole board are here |
//!
//! The format, the locks and the writes of a board are in `tenure-board`.

mod call;
mod claims;
pub mod events;
mod gates;
pub mod held;
mod issues;
mod ls;
mod next;

use tenure::Result;
use tenure_api::board::{BoardPlace, InitBoard, VerifiedBoard, VerifyBoard};
use tenure_board::Board;

use crate::{Caller, Handle, Service};
use call::make;

impl Handle<InitBoard> for Service {
    async fn handle(&self, request: InitBoard, caller: &Caller) -> Result<BoardPlace> {
        let directory = self.place_of_board(request.board.as_deref())?;
        let board = directory.display().to_string();
        make(directory, caller).await?;
        Ok(BoardPlace { board })
    }
}

impl Handle<VerifyBoard> for Service {
    async fn handle(&self, request: VerifyBoard, caller: &Caller) -> Result<VerifiedBoard> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let work = if request.repair {
            Board::repair
        } else {
            Board::verify
        };
        call.work(None, work).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tenure::Owner;
    use tenure::store_choice::Environment;

    use super::*;
    use crate::Surroundings;

    fn service(directory: &std::path::Path) -> Service {
        let environment = Environment::new(directory.to_owned(), 0);
        let variables = [("HOME".into(), directory.as_os_str().to_owned())];
        let surroundings = Surroundings {
            environment: environment.with_variables(variables),
            store: Some("memory:".into()),
            addresses: Vec::new(),
        };
        Service::new(surroundings).unwrap()
    }

    #[tokio::test]
    async fn a_board_is_used_by_the_names_of_its_operations() {
        let directory = tempfile::tempdir().unwrap();
        let (service, board) = (service(directory.path()), directory.path().join("board"));
        let caller = Caller::new(Owner::parse("ana").unwrap(), "test");
        let call = async |name: &str, mut request: Value| {
            request["board"] = json!(board);
            let answer = service.call(name, request, &caller).await?;
            let answer: Value = serde_json::from_str(answer.get()).unwrap();
            Ok::<_, tenure_api::Failure>(answer)
        };
        call("board.init", json!({})).await.unwrap();
        let new = json!({"issue": {"id": "a", "title": "One"}});
        let added = call("board.add", new.clone()).await.unwrap();
        assert_eq!(added["issues"][0]["priority"], 2);
        let again = call("board.add", new).await.unwrap_err();
        assert_eq!(again.kind, tenure::Class::Conflict);
        let next = json!({"claim": true, "ttl": "60s"});
        let claimed = call("board.next", next.clone()).await.unwrap();
        assert_eq!(claimed["issues"][0]["claim"]["owner"], "ana");
        let nothing = call("board.next", next).await.unwrap_err();
        assert_eq!(nothing.kind, tenure::Class::Busy);
        let events = call("board.events", json!({"after": 1})).await.unwrap();
        assert_eq!(events["events"][0]["event"]["type"], "issue_claimed");
        let unknown = call("board.ls", json!({"colour": "red"})).await;
        assert_eq!(unknown.unwrap_err().kind, tenure::Class::BadInput);
    }

    #[tokio::test]
    async fn an_issue_claimed_though_the_wait_was_cancelled_is_released() {
        let directory = tempfile::tempdir().unwrap();
        let service = service(directory.path());
        let caller = Caller::new(Owner::parse("ana").unwrap(), "test");
        let board = directory.path().join("board");
        call::make(board.clone(), &caller).await.unwrap();
        let opened = service.open_board(&board).unwrap();
        let issue = opened.create(tenure_board::NewIssue::titled("One"));
        // A board that was read has a cache, from which an issue is claimed without a wait.
        opened.next(None, tenure_board::Take::Look).unwrap();
        caller.cancel().cancel();
        let request = tenure_api::board::NextIssue {
            board: Some(board),
            ..Default::default()
        };
        let held = service.hold_next_issue(request, &caller).await;
        let error = held.err().expect("it was cancelled");
        assert_eq!(error.class(), tenure::Class::Interrupted);
        let issue = opened.issue(&issue.unwrap().id).unwrap();
        assert!(issue.claim.is_none() && issue.state == tenure_board::issue::IssueState::Open);
    }
}
