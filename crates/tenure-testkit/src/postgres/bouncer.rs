//! A real pgbouncer before a database.
//!
//! It listens on 127.0.0.1, lets every client in, and goes to the server as `postgres`. It ends
//! when it is dropped, or soon after the test process (see `supervisor`).

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use super::database::Database;
use super::programs::{USER, free_port, pgbouncer};
use super::supervisor::Supervisor;
use super::until;

/// The number of starts that are tried when another program has taken the port.
const STARTS_MAX: u32 = 5;

/// The moment at which pgbouncer takes a server's session from its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When the client leaves: session locks work.
    Session,
    /// After each transaction: session locks mean nothing.
    Transaction,
    /// After each statement: transactions do not work either.
    Statement,
}

impl Mode {
    /// Every mode of pgbouncer.
    pub const ALL: [Self; 3] = [Self::Session, Self::Transaction, Self::Statement];

    /// Returns the name of the mode in pgbouncer's settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        }
    }
}

/// A running pgbouncer.
pub struct Bouncer {
    /// The process that ends pgbouncer when this is dropped.
    _supervisor: Supervisor,
    url: String,
}

impl Bouncer {
    /// Starts a pgbouncer with 20 sessions, as it has by default.
    pub fn start(database: &Database, mode: Mode) -> Self {
        Self::with_sessions(database, mode, 20)
    }

    /// Starts a pgbouncer in session mode that leaves a session as its client left it.
    pub fn without_reset(database: &Database) -> Self {
        Self::serving(database, |port| {
            settings(database, Mode::Session, 20, port) + "server_reset_query =\n"
        })
    }

    /// Starts a pgbouncer with at most so many sessions on the server. With one, clients in
    /// transaction mode are sure to share it.
    pub fn with_sessions(database: &Database, mode: Mode, sessions_max: u32) -> Self {
        Self::serving(database, |port| {
            settings(database, mode, sessions_max, port)
        })
    }

    fn serving(database: &Database, settings: impl Fn(u16) -> String) -> Self {
        for _ in 0..STARTS_MAX {
            let mut supervisor = Supervisor::spawn(&std::env::temp_dir(), "TERM");
            let port = free_port();
            let file = supervisor.directory().join("pgbouncer.ini");
            fs::write(&file, settings(port)).unwrap();
            // The test owns the file, and another user reads it.
            fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
            let program = pgbouncer();
            let pid = supervisor.start(&[program.to_str().unwrap(), file.to_str().unwrap()]);
            let process = format!("/proc/{pid}/stat");
            let mut serves = false;
            until(
                || {
                    // Its log alone tells that no other program listens there.
                    serves = supervisor.log().contains("process up")
                        && TcpStream::connect(("127.0.0.1", port)).is_ok();
                    let stat = fs::read_to_string(&process).unwrap_or_default();
                    serves || stat.is_empty() || stat.contains(") Z ")
                },
                || format!("pgbouncer does not come up: {}", supervisor.log()),
            );
            if serves {
                return Self {
                    url: database.at(&format!("127.0.0.1:{port}")),
                    _supervisor: supervisor,
                };
            }
            let said = supervisor.log();
            assert!(said.contains("Address already in use"), "{said}");
        }
        panic!("no port for pgbouncer");
    }

    /// Returns the database's address through pgbouncer.
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn settings(database: &Database, mode: Mode, sessions_max: u32, port: u16) -> String {
    let (name, mode) = (database.name(), mode.name());
    let (host, server_port) = (database.socket_directory(), database.port());
    format!(
        "[databases]\n\
         {name} = host={host} port={server_port} user={USER}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = {mode}\n\
         default_pool_size = {sessions_max}\n\
         ignore_startup_parameters = extra_float_digits\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::Cluster;

    /// Asks two things in one transaction through a pgbouncer.
    fn ask(mode: Mode) -> Result<String, String> {
        let database = Cluster::shared().database();
        let bouncer = Bouncer::with_sessions(&database, mode, 1);
        database.try_psql_at(
            bouncer.url(),
            "begin; select current_database(); select inet_server_addr() is null; commit",
        )
    }

    #[test]
    fn sessions_and_transactions_pass_through_it_to_the_database() {
        for mode in [Mode::Session, Mode::Transaction] {
            let answer = ask(mode).unwrap();
            assert!(
                answer.starts_with("test_") && answer.ends_with("\nt"),
                "{answer}"
            );
        }
    }

    #[test]
    fn a_transaction_is_refused_in_statement_mode() {
        let problem = ask(Mode::Statement).unwrap_err();
        assert!(problem.contains("transaction"), "{problem}");
    }

    /// A second client can take a lock that a connected client holds only where both share a
    /// session of the server: a session may take its own lock again.
    #[test]
    fn clients_share_a_session_in_transaction_mode_and_not_in_session_mode() {
        for (mode, shared) in [(Mode::Session, "f"), (Mode::Transaction, "t")] {
            let database = Cluster::shared().database();
            // There are two sessions, so that the second client need not wait for the first to
            // leave; in transaction mode the free one is used first.
            let bouncer = Bouncer::with_sessions(&database, mode, 2);
            let mut first = database.session_at(bouncer.url());
            first.run("select pg_advisory_lock(1, 7)");
            let taken = database
                .try_psql_at(bouncer.url(), "select pg_try_advisory_lock(1, 7)")
                .unwrap();
            assert_eq!(taken, shared, "{mode:?}");
        }
    }

    #[test]
    fn a_dropped_bouncer_is_gone() {
        let database = Cluster::shared().database();
        let bouncer = Bouncer::start(&database, Mode::Session);
        let url = bouncer.url().to_owned();
        database.try_psql_at(&url, "select 1").unwrap();
        drop(bouncer);
        let problem = database.try_psql_at(&url, "select 1").unwrap_err();
        assert!(problem.contains("refused"), "{problem}");
    }
}
