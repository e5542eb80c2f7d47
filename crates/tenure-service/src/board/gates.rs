//! Gates: defined, and judged for an issue.

use tenure::Result;
use tenure_api::board::{DefineGate, Gate, Gates, Issues, JudgeGate};

use crate::{Caller, Handle, Service};

impl Handle<DefineGate> for Service {
    async fn handle(&self, request: DefineGate, caller: &Caller) -> Result<Gates> {
        let DefineGate { board, name, by } = request;
        let call = self.on_board_or_make(board.as_deref(), caller).await?;
        let gate = call.work(None, move |board| {
            board.define_gate(&name, by)?;
            Ok(Gate { name, by })
        });
        let (gates, next) = (vec![gate.await?], None);
        Ok(Gates { gates, next })
    }
}

impl Handle<JudgeGate> for Service {
    async fn handle(&self, request: JudgeGate, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let (gate, verdict) = (request.gate, request.verdict.into());
        let judged = call.one_issue(request.issue, move |board, id| {
            board.judge_gate(id, &gate, verdict)
        });
        judged.await
    }
}
