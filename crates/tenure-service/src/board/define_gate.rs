//! Defines a gate.

use tenure::Result;
use tenure_api::board::{DefineGate, Gate, Gates};

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
