//! Errors of the database as errors of Tenure, by SQLSTATE.
//!
//! | SQLSTATE | what it is | becomes |
//! |---|---|---|
//! | none, as a password is missing or TLS fails | how to talk to the server | `Configuration` |
//! | none otherwise, 08, 25, 57 | the connection is gone, or the statement was cancelled from outside | `Unreachable` |
//! | 40, 55P03 | a deadlock, or rows that others had: the statement may succeed a moment later | `Unreachable` |
//! | 53300, 57P03, 57P05 | full, starting up, or the time for idle sessions was over before it could be lifted | `Unreachable`; connecting waits it out until the deadline |
//! | 57P01, 57P02, and connections refused or reset | the server is away | `Unreachable`; opening waits for it, too |
//! | 28, 3D, 3F | a wrong role or database; or no TLS where the server requires it | `Configuration` |
//! | 42501 | missing rights | `Configuration`, with the rights to grant |
//! | 25006 | a standby, or a database made read-only | `Configuration` |
//! | others | | `Internal` |
//!
//! 55P03 after a wait for an advisory lock means that it was not free in time: the request for the
//! lock checks for that before it comes here.

use std::error::Error as _;

use tenure_core::Error;
use tokio_postgres::error::SqlState;

use crate::Address;

/// Returns our error for an error of the database.
pub(crate) fn explain(address: &Address, error: &tokio_postgres::Error) -> Error {
    let problem = message(error);
    let Some(state) = error.code() else {
        return match (is_ours(error), remedy_for_way(&problem)) {
            (true, _) => Error::Internal(format!("{address}: {problem}")),
            (false, Some(remedy)) => Error::configuration(format!("{address}: {problem}"), remedy),
            (false, None) => unreachable(address, problem),
        };
    };
    let code = state.code();
    if address.is_plain() && wants_tls(&problem) {
        return Error::configuration(
            format!("{address} lets nobody in without TLS: {problem}"),
            "leave sslmode=disable out of the address, or ask for sslmode=require or verify-full",
        );
    }
    if *state == SqlState::INSUFFICIENT_PRIVILEGE {
        return Error::configuration(format!("{address}: {problem}"), grants(address));
    }
    if *state == SqlState::READ_ONLY_SQL_TRANSACTION {
        return Error::configuration(
            format!("{address} is read-only: {problem}"),
            "give the address of the primary (target_session_attrs=read-write picks it)",
        );
    }
    if *state == SqlState::LOCK_NOT_AVAILABLE {
        return unreachable(address, problem);
    }
    match &code[..2] {
        "08" | "25" | "40" | "53" | "57" => unreachable(address, problem),
        "28" | "3D" | "3F" => Error::configuration(
            format!("{address}: {problem}"),
            "correct the address: user, password, database",
        ),
        _ => Error::Internal(format!("{address}: {problem} (SQLSTATE {code})")),
    }
}

/// Returns the remedy for a role without rights.
fn grants(address: &Address) -> String {
    let (role, database) = (address.role(), address.database());
    format!(
        "let the owner of the database run: GRANT CREATE ON DATABASE {database} TO {role}; or, where the schema tenure \
         exists, let its owner run: GRANT USAGE ON SCHEMA tenure TO {role}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL \
         TABLES IN SCHEMA tenure TO {role}; GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA tenure TO {role}"
    )
}

/// Returns true if a server turned a connection away because it is not encrypted. PostgreSQL,
/// PgBouncer and others say that in words alone.
fn wants_tls(problem: &str) -> bool {
    let by_rules = problem.contains("pg_hba.conf")
        && (problem.contains("no encryption") || problem.contains("SSL off"))
        && !problem.contains("[local]");
    by_rules || problem.contains("SSL required") || problem.contains("SSL connection is required")
}

/// Returns the remedy for a server that answers and cannot be talked to as configured: trying again
/// does not help. The driver tells these cases apart by words alone.
fn remedy_for_way(problem: &str) -> Option<&'static str> {
    let remedies = [
        (
            "password missing",
            "give the password in PGPASSWORD or in ~/.pgpass, or in the address",
        ),
        (
            "server does not support TLS",
            "turn on ssl at the server, or ask for less with sslmode=prefer or disable",
        ),
        (
            "CaUsedAsEndEntity",
            "the server shows the certificate of an authority as its own: let the authority sign one for the server",
        ),
        (
            "NotValidForName",
            "ask for the host by the name in its certificate, or for less with sslmode=verify-ca",
        ),
        (
            "invalid peer certificate",
            "give the authority that signed the certificate of the server in sslrootcert, or ask for less with \
             sslmode=require",
        ),
    ];
    let mut remedies = remedies.into_iter();
    remedies.find_map(|(words, remedy)| problem.contains(words).then_some(remedy))
}

/// Returns the error for a database that cannot be reached at the moment.
pub(crate) fn unreachable(address: &Address, problem: impl Into<String>) -> Error {
    Error::Unreachable {
        store: address.to_string(),
        problem: problem.into(),
    }
}

/// Returns true if a connection was refused only for the moment.
pub(crate) fn is_passing(error: &tokio_postgres::Error) -> bool {
    let passing = [
        &SqlState::TOO_MANY_CONNECTIONS,
        &SqlState::CANNOT_CONNECT_NOW,
        // Limits of an administrator that ran out before they could be lifted.
        &SqlState::QUERY_CANCELED,
        &SqlState::IDLE_SESSION_TIMEOUT,
    ];
    error.code().is_some_and(|state| passing.contains(&state))
}

/// Returns true if no server is at the address at the moment: the connection was refused or reset,
/// the socket is not there, or the server ended the session. A name that does not resolve has none
/// of these kinds.
pub(crate) fn is_away(error: &tokio_postgres::Error) -> bool {
    use std::io::ErrorKind;
    if let Some(state) = error.code() {
        return [&SqlState::ADMIN_SHUTDOWN, &SqlState::CRASH_SHUTDOWN].contains(&state);
    }
    let source = error.source();
    let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    error.is_closed()
        || source.is_some_and(|source| {
            matches!(
                source.kind(),
                ErrorKind::ConnectionRefused
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe
                    | ErrorKind::UnexpectedEof
                    | ErrorKind::NotFound
            )
        })
}

/// Returns the message of the database, or the reason why there is none.
pub(crate) fn message(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Returns true if the mistake is in our request, not in the server or the way to it.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    !error.is_closed()
        && error.source().is_some_and(|source| {
            source
                .downcast_ref::<tokio_postgres::types::WrongType>()
                .is_some()
        })
}
