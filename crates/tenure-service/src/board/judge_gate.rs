//! Passes or fails a gate of an issue.

use tenure::Result;
use tenure_api::board::{Issues, JudgeGate};

use crate::{Caller, Handle, Service};

impl Handle<JudgeGate> for Service {
    async fn handle(&self, request: JudgeGate, caller: &Caller) -> Result<Issues> {
        let call = self.on_board(request.board.as_deref(), caller)?;
        let (gate, verdict) = (request.gate, request.verdict.into());
        let judged = call.work_on(request.issue, move |board, id| {
            board.judge_gate(id, &gate, verdict)
        });
        Ok(Issues::one(judged.await?.shown()))
    }
}
