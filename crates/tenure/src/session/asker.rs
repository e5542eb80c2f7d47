//! Who asks: this process, for an owner.

use tenure_core::request::cut_command;
use tenure_core::{Asker, Owner, Result};

use crate::random;

/// A new session of this process.
pub(super) fn asker(owner: Owner, command: Option<String>) -> Result<Asker> {
    let host = rustix::system::uname();
    let command = command.unwrap_or_else(command_line);
    Ok(Asker {
        session: random::session_id()?,
        owner,
        pid: std::process::id(),
        host: host.nodename().to_string_lossy().into_owned(),
        command: cut_command(&command),
    })
}

/// The command line of this process, as a shell would read it.
fn command_line() -> String {
    let words = std::env::args_os();
    let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+=./:,@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--wait=5s"), "--wait=5s");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("$(x)"), "'$(x)'");
    }

    #[test]
    fn a_session_without_a_command_shows_the_command_line() {
        let owner = Owner::parse("ana@desk").unwrap();
        let asker = asker(owner, None).unwrap();
        let program = std::env::args().next().unwrap();
        assert!(asker.command.starts_with(&quoted(&program)), "{asker:?}");
        assert_eq!(asker.pid, std::process::id());
        assert!(!asker.host.is_empty());
    }
}
