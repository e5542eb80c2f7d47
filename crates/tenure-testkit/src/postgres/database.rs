//! A database for one test.

use super::programs::USER;
use super::psql::{Psql, Target};

/// The database that every server has.
pub(super) const FIRST: &str = "postgres";

/// A database of a test. It is dropped with all its sessions when the value is.
#[derive(Debug)]
pub struct Database {
    place: Target,
    name: String,
}

impl Database {
    pub(super) fn create(place: Target, name: String) -> Self {
        // template0 is used because no client can be connected to it, which would fail the
        // statement.
        place
            .run(FIRST, &format!("create database {name} template template0"))
            .unwrap_or_else(|error| panic!("{error}"));
        Self::known(place, name)
    }

    /// Returns a database that exists already.
    pub(super) fn known(place: Target, name: String) -> Self {
        Self { place, name }
    }

    /// Returns the name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address by the server's socket.
    pub fn url(&self) -> String {
        let directory = self.place.directory.to_str().unwrap();
        let host: String = directory
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                    char::from(byte).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect();
        self.at(&format!("{host}:{}", self.place.port))
    }

    /// Returns the address by TCP.
    pub fn tcp_url(&self) -> String {
        self.at(&format!("127.0.0.1:{}", self.place.port))
    }

    /// Returns the server's TCP port.
    pub fn port(&self) -> u16 {
        self.place.port
    }

    /// Runs statements with a new psql, each in a transaction of its own, and returns what they
    /// print: rows as lines, columns divided by `|`. Panics if one fails.
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs statements as [`psql`](Self::psql) does; a failure is psql's message.
    pub fn try_psql(&self, sql: &str) -> Result<String, String> {
        self.place.run(&self.name, sql)
    }

    /// Runs statements as [`try_psql`](Self::try_psql) does, by another way to this server.
    pub fn try_psql_at(&self, url: &str, sql: &str) -> Result<String, String> {
        self.place.run(url, sql)
    }

    /// Returns a backup of the whole database, as statements for [`psql`](Self::psql).
    pub fn dump(&self) -> String {
        self.place
            .dump(&self.name)
            .unwrap_or_else(|error| panic!("pg_dump: {error}"))
    }

    /// Opens a psql that stays connected.
    pub fn session(&self) -> Psql {
        Psql::open(&self.place, &self.name)
    }

    /// Opens a psql that stays connected, or returns `None` if the server lets no more in.
    pub fn try_session(&self) -> Option<Psql> {
        let mut session = self.session();
        session.is_in().then_some(session)
    }

    /// Opens a psql that stays connected, by another way to this server.
    pub fn session_at(&self, url: &str) -> Psql {
        Psql::open(&self.place, url)
    }

    /// Returns the address of this database at another host and port.
    pub(super) fn at(&self, host_and_port: &str) -> String {
        format!("postgres://{USER}@{host_and_port}/{}", self.name)
    }

    /// Returns the directory of the server's socket.
    pub(super) fn socket_directory(&self) -> &str {
        self.place.directory.to_str().unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A test may have stopped the server or a session; the cluster's end then removes it.
        let sql = format!("drop database {} with (force)", self.name);
        drop(self.place.run(FIRST, &sql));
    }
}

#[cfg(test)]
mod tests {
    use crate::postgres::Cluster;

    #[test]
    fn both_addresses_lead_to_the_database() {
        let database = Cluster::shared().database();
        let ask = "select current_database(), inet_server_addr() is null, current_user";
        for (url, by_socket) in [(database.url(), "t"), (database.tcp_url(), "f")] {
            assert_eq!(
                database.try_psql_at(&url, ask).unwrap(),
                format!("{}|{by_socket}|postgres", database.name())
            );
        }
    }

    #[test]
    fn databases_are_apart_and_dropped_with_their_sessions() {
        let cluster = Cluster::shared();
        let (one, other) = (cluster.database(), cluster.database());
        one.psql("create table t ()");
        other.psql("create table t ()");
        let mut session = one.session();
        session.run("begin; lock table t");
        let count = format!(
            "select count(*) from pg_database where datname = '{}'",
            one.name()
        );
        assert_eq!(other.psql(&count), "1");
        drop(one);
        assert_eq!(other.psql(&count), "0");
    }

    #[test]
    fn many_tests_make_databases_at_once() {
        let names: std::collections::BTreeSet<String> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        Cluster::shared()
                            .database()
                            .psql("select current_database()")
                    })
                })
                .collect();
            makers
                .into_iter()
                .map(|maker| maker.join().unwrap())
                .collect()
        });
        assert_eq!(names.len(), 8);
    }

    #[test]
    fn a_backup_brings_back_what_was_there() {
        let cluster = Cluster::shared();
        let (one, other) = (cluster.database(), cluster.database());
        one.psql(
            "create table t (n int generated always as identity); insert into t default values",
        );
        let backup = one.dump();
        one.psql("insert into t default values");
        other.psql(&backup);
        assert_eq!(other.psql("select max(n) from public.t"), "1");
        assert_eq!(
            other.psql("insert into public.t default values returning n"),
            "2"
        );
    }

    #[test]
    fn a_failing_statement_is_told() {
        let database = Cluster::shared().database();
        let problem = database
            .try_psql("select 1; select 1/0; select 2")
            .unwrap_err();
        assert!(problem.contains("division by zero"), "{problem}");
    }
}
