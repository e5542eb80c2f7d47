//! Ids that no other process draws.

use tenure_core::{LeaseId, SessionId};
use tenure_os::{clock, random};

/// Returns a new lease id.
pub(crate) fn lease_id() -> LeaseId {
    LeaseId::new_at(clock::now(), random::bytes())
}

/// Returns a new session id.
pub(crate) fn session_id() -> SessionId {
    SessionId::new_at(clock::now(), random::bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ() {
        assert_ne!(lease_id(), lease_id());
        assert_ne!(session_id(), session_id());
    }
}
