//! `psql`, the client that others use: its sessions and locks are real, and not made by our code.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::programs::USER;

/// The address of a server, and the `psql` of its version.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) psql: PathBuf,
    /// The directory of the socket.
    pub(super) directory: PathBuf,
    pub(super) port: u16,
}

impl Target {
    /// Returns the output of `pg_dump`, which lies beside psql, for a database.
    pub(super) fn dump(&self, database: &str) -> Result<String, String> {
        let program = self.psql.with_file_name("pg_dump");
        let mut command = Command::new(&program);
        command
            .arg(database)
            .env("PGHOST", &self.directory)
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", USER)
            .env_remove("PGOPTIONS");
        let output = command.output().map_err(|error| {
            let program = program.display();
            format!(
                "{program}: {error}: install postgresql-client (apt-get install postgresql-client)"
            )
        })?;
        if output.status.success() {
            String::from_utf8(output.stdout).map_err(|error| error.to_string())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Returns a psql that prints bare values, reads no files of the user's and stops at an error.
    fn psql(&self) -> Command {
        let mut command = Command::new(&self.psql);
        command
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .env("PGHOST", &self.directory)
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", USER);
        for other in [
            "PGOPTIONS",
            "PGSERVICE",
            "PGAPPNAME",
            "PGHOSTADDR",
            "PGPASSWORD",
        ] {
            command.env_remove(other);
        }
        command
    }

    /// Runs statements in a session of their own, each in a transaction of its own; returns what
    /// they print, or psql's message about the error. The database is a name or a URL.
    pub(super) fn run(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut command = self.psql();
        command.args(["-d", database]);
        output(command, sql)
    }
}

fn output(mut command: Command, sql: &str) -> Result<String, String> {
    // The statements go to its input, and not to -c: that would make one transaction of them.
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // A psql that could not connect has closed its input; its status tells.
    drop(writeln!(input, "{sql}\n;"));
    drop(input);
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        let printed = String::from_utf8(output.stdout).unwrap();
        Ok(printed.trim_end_matches('\n').to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A psql that stays connected: a foreign program that holds a lock or an open transaction.
/// Dropping it kills it, and the server ends its session.
pub struct Psql {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Psql {
    /// The line that psql prints after the answer to a statement.
    const END: &'static str = "-- end of answer --";

    pub(super) fn open(place: &Target, database: &str) -> Self {
        let mut child = place
            .psql()
            .args(["-d", database])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Runs a statement and returns what it prints; panics if it fails.
    pub fn run(&mut self, sql: &str) -> String {
        self.send(sql);
        self.answer()
    }

    /// Sends a statement, such as one that waits for a lock, and goes on without its answer.
    pub fn send(&mut self, sql: &str) {
        writeln!(self.input, "{sql}\n;\n\\echo {}", Self::END).unwrap();
    }

    /// Waits for the answer to the first statement sent and not yet answered.
    pub fn answer(&mut self) -> String {
        let answer = self.try_answer();
        answer.unwrap_or_else(|lines| panic!("psql ended after {lines:?}: see its error above"))
    }

    /// Returns the answer, or the part of it that was printed before psql ended.
    fn try_answer(&mut self) -> Result<String, Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return Err(lines);
            }
            match line.trim_end_matches('\n') {
                Self::END => return Ok(lines.join("\n")),
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// Returns true if the server let psql in.
    pub(super) fn is_in(&mut self) -> bool {
        // A psql that was refused has closed its input, and ends without an answer.
        drop(writeln!(self.input, "\\echo {}", Self::END));
        self.try_answer().is_ok()
    }

    /// Returns true if a part of an answer has come that was not yet waited for.
    pub fn has_answered(&self) -> bool {
        let mut interest = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        !self.output.buffer().is_empty()
            || poll(&mut interest, Some(&Timespec::default())).unwrap() > 0
    }

    /// Returns the process id of its session on the server, as `pg_locks` shows it.
    pub fn backend(&mut self) -> u32 {
        self.run("select pg_backend_pid()").parse().unwrap()
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use crate::postgres::{Cluster, until};

    #[test]
    fn an_open_session_holds_a_lock_until_it_is_dropped() {
        let database = Cluster::shared().database();
        let free = || database.psql("select pg_try_advisory_lock(1, 7)") == "t";
        let mut holder = database.session();
        holder.run("select pg_advisory_lock(1, 7)");
        assert!(!free());
        drop(holder);
        until(free, || "the lock stays".into());
    }

    #[test]
    fn a_sent_statement_waits_and_answers_later() {
        let database = Cluster::shared().database();
        let (mut holder, mut waiter) = (database.session(), database.session());
        holder.run("select pg_advisory_lock(1, 7)");
        let backend = waiter.backend();
        waiter.send("select 'granted' from pg_advisory_lock(1, 7)");
        let waits = format!("select count(*) from pg_locks where pid = {backend} and not granted");
        until(
            || database.psql(&waits) == "1",
            || "it does not wait".into(),
        );
        assert!(!waiter.has_answered());
        holder.run("select pg_advisory_unlock(1, 7)");
        until(|| waiter.has_answered(), || "no answer".into());
        assert_eq!(waiter.answer(), "granted");
    }

    #[test]
    #[should_panic(expected = "psql ended")]
    fn a_statement_that_fails_in_a_session_fails_the_test() {
        Cluster::shared().database().session().run("select 1/0");
    }
}
