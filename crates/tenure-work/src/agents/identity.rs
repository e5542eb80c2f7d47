//! The owner that a coding agent asks as.
//!
//! It is `agent:PROGRAM-TAIL`: the program, and the last twelve letters and digits of the session id. The tail is random in every
//! kind of UUID, also in those that begin with the time. So two agents of one user are two owners.

use tenure::Owner;

/// How much of a session id is in the owner.
const TAIL_CHARS: usize = 12;

/// Returns the owner of a session of a program, such as `agent:claude-1f2e3d4c5b6a`.
pub fn owner_of(program: &str, session: &str) -> Owner {
    let plain: Vec<char> = session
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let tail: String = plain[plain.len().saturating_sub(TAIL_CHARS)..]
        .iter()
        .collect();
    let named = match tail.is_empty() {
        true => format!("agent:{program}"),
        false => format!("agent:{program}-{tail}"),
    };
    let owner = Owner::parse(&named).or_else(|_| Owner::parse("agent:unknown"));
    owner.expect("letters, digits and a colon are an owner")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sessions_that_begin_in_one_second_are_two_owners() {
        let one = owner_of("codex", "019a1b2c-3d4e-7f00-8a11-1f2e3d4c5b6a");
        let other = owner_of("codex", "019a1b2c-3d4e-7f00-8a11-aaaaaaaaaaaa");
        assert_eq!(one.as_str(), "agent:codex-1f2e3d4c5b6a");
        assert_ne!(one, other);
        assert_eq!(owner_of("claude", "").as_str(), "agent:claude");
    }
}
