//! The asker of requests: this process, for an owner.

use tenure_core::request::{command_line, kept_command};
use tenure_core::{Asker, Owner};
use tenure_os::platform::host_name;

use crate::ids;

/// Returns the asker of a new session of this process.
pub(super) fn asker(owner: Owner, command: Option<String>, agent: Option<Owner>) -> Asker {
    let command = command.unwrap_or_else(|| command_line(std::env::args_os()));
    Asker {
        session: ids::session_id(),
        owner,
        pid: std::process::id(),
        host: host_name(),
        command: kept_command(&command),
        agent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_kept_without_the_passwords_in_it() {
        let owner = Owner::parse("ana@desk").unwrap();
        let command = "psql postgres://ana:s3cret@db/x".to_owned();
        let asker = asker(owner, Some(command), None);
        assert_eq!(asker.command, "psql postgres://ana@db/x");
    }

    #[test]
    fn a_session_without_a_command_shows_the_command_line() {
        let owner = Owner::parse("ana@desk").unwrap();
        let asker = asker(owner, None, None);
        let program = std::env::args().next().unwrap();
        assert!(
            asker.command.starts_with(&command_line([program])),
            "{asker:?}"
        );
        assert_eq!(asker.pid, std::process::id());
        assert!(!asker.host.is_empty());
    }
}
