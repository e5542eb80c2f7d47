//! The owner that a coding agent asks as.
//!
//! The owner is `agent:PROGRAM-TAIL`: the program, and the last twelve digits of the session id.
//! These are random in the UUIDs that programs use, also in UUIDs that begin with the time. For a
//! session id of another form a hash of all of it is added. Two agents of one user are therefore
//! two owners.
//!
//! A command that an agent starts finds the session in its environment ([`running_under`]):
//!
//! | program | names the session | only shows the program |
//! |---|---|---|
//! | Claude Code | `CLAUDE_CODE_SESSION_ID` | `CLAUDECODE` |
//! | Codex CLI | `CODEX_THREAD_ID` | `CODEX_SANDBOX_NETWORK_DISABLED` |
//! | Copilot CLI | `COPILOT_AGENT_SESSION_ID` | `COPILOT_CLI` |
//! | Cursor | `CURSOR_CONVERSATION_ID` | `CURSOR_AGENT` |
//! | Gemini CLI | `GEMINI_SESSION_ID` (its hooks only) | `GEMINI_CLI` |
//!
//! An agent without a named session is known by its process (`ancestors`):
//! `agent:PROGRAM-PID-START-BOOT`. An agent inside another inherits the variables of the outer one.
//! If the variables of several programs are set, the nearest ancestor with one of their names
//! decides; if none is seen, the owner names all of them, and is the owner of none.
//!
//! # Limitations
//!
//! In Gemini CLI a hook and a shell command have different owners (by session, by process), unless
//! `TENURE_OWNER` is set. Claude Code 2.1.220 gives a session that was forked (`--fork-session`)
//! the id of the one it came from in this variable, so the two sessions are one owner in their
//! commands. If no session is named, a sandbox with process ids of its own for every command makes
//! every command an owner of its own.

use std::fmt;

use tenure::Owner;
use tenure_files::document::Version;

use super::{ancestors, event};

/// The number of characters of a session id in the owner.
const TAIL_CHARS: usize = 12;
/// The number of digits of the hash in the owner, if the session id is no UUID.
const HASH_DIGITS: usize = 8;

/// A coding agent that can be known by its environment.
struct ProgramMarkers {
    /// The program. Its word is part of the owner.
    is: event::Program,
    /// The names of its process.
    processes: &'static [&'static str],
    /// The variable that names the session.
    session: &'static str,
    /// The variable that only shows that the program is there.
    marker: &'static str,
}

const PROGRAMS: [ProgramMarkers; 5] = [
    ProgramMarkers {
        is: event::Program::Claude,
        processes: &["claude"],
        session: "CLAUDE_CODE_SESSION_ID",
        marker: "CLAUDECODE",
    },
    ProgramMarkers {
        is: event::Program::Codex,
        processes: &["codex"],
        session: "CODEX_THREAD_ID",
        marker: "CODEX_SANDBOX_NETWORK_DISABLED",
    },
    ProgramMarkers {
        is: event::Program::Copilot,
        processes: &["copilot"],
        session: "COPILOT_AGENT_SESSION_ID",
        marker: "COPILOT_CLI",
    },
    ProgramMarkers {
        is: event::Program::Cursor,
        processes: &["cursor-agent", "cursor"],
        session: "CURSOR_CONVERSATION_ID",
        marker: "CURSOR_AGENT",
    },
    ProgramMarkers {
        is: event::Program::Gemini,
        processes: &["gemini"],
        session: "GEMINI_SESSION_ID",
        marker: "GEMINI_CLI",
    },
];

/// The variables by which agents are known.
pub const VARIABLES: [&str; 10] = {
    let mut names = [""; 10];
    let mut i = 0;
    while i < PROGRAMS.len() {
        names[2 * i] = PROGRAMS[i].session;
        names[2 * i + 1] = PROGRAMS[i].marker;
        i += 1;
    }
    names
};

/// Returns the owner of a session of a program, such as `agent:claude-1f2e3d4c5b6a`.
pub fn owner_of(program: impl fmt::Display, session: &str) -> Owner {
    let named = match tail_of(session) {
        tail if tail.is_empty() => format!("agent:{program}"),
        tail => format!("agent:{program}-{tail}"),
    };
    owner(&named)
}

/// Returns the program whose variables name this session for its hooks.
pub fn program_of(
    session: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<event::Program> {
    let is_its = |program: &&ProgramMarkers| variable(program.session).as_deref() == Some(session);
    PROGRAMS.iter().find(is_its).map(|program| program.is)
}

/// Returns the owner of the coding agent that this process runs under, by its variables, or `None`
/// if there is none.
pub fn running_under(variable: impl Fn(&str) -> Option<String>) -> Option<Owner> {
    let nearest =
        |found: &[&ProgramMarkers]| ancestors::nearest(found.iter().map(|it| it.processes));
    told_by(variable, nearest)
}

/// Returns the program of the coding agent that this process runs under, by its variables: the
/// nearest, if there are several.
pub fn program_around(variable: impl Fn(&str) -> Option<String>) -> Option<event::Program> {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    let known = |program: &&ProgramMarkers| set(program.session) || set(program.marker);
    let found: Vec<&ProgramMarkers> = PROGRAMS.iter().filter(known).collect();
    let nearest = match found.len() {
        0 | 1 => 0,
        _ => ancestors::nearest(found.iter().map(|it| it.processes))?,
    };
    found.get(nearest).map(|program| program.is)
}

/// Returns the owner by variables. `nearest` returns the nearest of several programs around this
/// process.
fn told_by(
    variable: impl Fn(&str) -> Option<String>,
    nearest: impl FnOnce(&[&ProgramMarkers]) -> Option<usize>,
) -> Option<Owner> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty() && value != "0");
    let known = |program: &&ProgramMarkers| set(program.session).or(set(program.marker)).is_some();
    let found: Vec<&ProgramMarkers> = PROGRAMS.iter().filter(known).collect();
    let name =
        |program: &ProgramMarkers| match set(program.session).map(|session| tail_of(&session)) {
            Some(tail) if !tail.is_empty() => format!("{}-{tail}", program.is),
            _ => {
                let agent = ancestors::agent(program.processes, program.marker);
                format!("{}-{agent}", program.is)
            }
        };
    let names: Vec<String> = match *found {
        [] => return None,
        [only] => vec![name(only)],
        _ => match nearest(&found) {
            Some(nearest) => vec![name(found[nearest])],
            None => found.iter().map(|program| name(program)).collect(),
        },
    };
    Some(owner(&format!("agent:{}", names.join("+"))))
}

/// Returns the last letters and digits of a session id, and a hash of the whole id unless such a
/// tail is random.
fn tail_of(session: &str) -> String {
    let plain = session.chars().filter(char::is_ascii_alphanumeric);
    let plain: Vec<char> = plain.collect();
    let tail = &plain[plain.len().saturating_sub(TAIL_CHARS)..];
    let tail: String = tail.iter().collect();
    if session.is_empty() || has_random_tail(session) {
        return tail;
    }
    let hash = &Version::of(session.as_bytes()).to_string()[..HASH_DIGITS];
    if tail.is_empty() {
        hash.to_owned()
    } else {
        format!("{tail}-{hash}")
    }
}

/// Returns true for a UUID of version 4 or 7.
fn has_random_tail(session: &str) -> bool {
    const FORM: &str = "xxxxxxxx-xxxx-Vxxx-xxxx-xxxxxxxxxxxx";
    let is_of_form = |(c, form): (char, char)| match form {
        'V' => matches!(c, '4' | '7'),
        'x' => c.is_ascii_hexdigit(),
        dash => c == dash,
    };
    session.len() == FORM.len() && session.chars().zip(FORM.chars()).all(is_of_form)
}

fn owner(named: &str) -> Owner {
    let owner = Owner::parse(named).or_else(|_| Owner::parse("agent:unknown"));
    owner.expect("letters, digits and a colon are an owner")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(set: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| set.iter().find(|(it, _)| *it == name);
        let owner = running_under(|name| value(name).map(|(_, value)| (*value).to_owned()));
        owner.map(|owner| owner.as_str().to_owned())
    }

    #[test]
    fn two_sessions_that_begin_in_one_second_are_two_owners() {
        let one = owner_of("codex", "019a1b2c-3d4e-7f00-8a11-1f2e3d4c5b6a");
        let other = owner_of("codex", "019a1b2c-3d4e-7f00-8a11-aaaaaaaaaaaa");
        assert_eq!(one.as_str(), "agent:codex-1f2e3d4c5b6a");
        assert_ne!(one, other);
        assert_eq!(owner_of("claude", "").as_str(), "agent:claude");
    }

    #[test]
    fn sessions_whose_ids_end_alike_are_two_owners() {
        let mac = |time: &str| format!("{time}-0000-1000-8000-aaaaaaaaaaaa");
        for [one, other] in [
            ["one-shared-integration-x", "two-shared-integration-x"].map(str::to_owned),
            ["s1", "s-1"].map(str::to_owned),
            ["é", "ü"].map(str::to_owned),
            // A UUID of version 1 ends with the address of its machine.
            [mac("00000001"), mac("00000002")],
        ] {
            let (owner, others) = (owner_of("claude", &one), owner_of("claude", &other));
            assert_ne!(owner, others, "{one}, {other}");
            assert_ne!(owner.as_str(), "agent:unknown");
        }
    }

    #[test]
    fn every_program_is_told_by_the_session_it_names() {
        let session = "0b5e2f0e-93a1-4c5d-8e7f-1f2e3d4c5b6a";
        for program in &PROGRAMS {
            let found = under(&[(program.session, session), (program.marker, "1")]).unwrap();
            assert_eq!(found, format!("agent:{}-1f2e3d4c5b6a", program.is));
            assert_eq!(found, owner_of(program.is, session).as_str());
        }
        assert_eq!(under(&[]), None);
        assert_eq!(under(&[("CLAUDECODE", ""), ("GEMINI_CLI", "0")]), None);
    }

    #[test]
    fn a_program_that_names_no_session_is_told_by_its_process() {
        for program in &PROGRAMS {
            let found = under(&[(program.marker, "1")]).unwrap();
            let rest = found.strip_prefix(&format!("agent:{}-", program.is));
            let parts: Vec<&str> = rest.unwrap().split('-').collect();
            assert_eq!(parts.len(), 3, "{found}");
            assert_eq!(Some(found), under(&[(program.marker, "1")]), "it stays");
        }
    }

    #[test]
    fn an_agent_inside_another_is_not_the_outer_one() {
        let (a, b) = (
            "00000000-0000-4000-8000-aaaaaaaaaaaa",
            "00000000-0000-7000-8000-bbbbbbbbbbbb",
        );
        let set = [("CODEX_THREAD_ID", a), ("CLAUDE_CODE_SESSION_ID", b)];
        let value = |name: &str| set.iter().find(|(it, _)| *it == name);
        let told = |nearest| {
            let variable = |name: &str| value(name).map(|(_, value)| (*value).to_owned());
            told_by(variable, |_| nearest).unwrap().as_str().to_owned()
        };
        assert_eq!(told(Some(0)), "agent:claude-bbbbbbbbbbbb");
        assert_eq!(told(Some(1)), "agent:codex-aaaaaaaaaaaa");
        assert_eq!(
            told(None),
            "agent:claude-bbbbbbbbbbbb+codex-aaaaaaaaaaaa",
            "it is neither"
        );
    }
}
