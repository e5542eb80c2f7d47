//! A private PostgreSQL server.
//!
//! [`Cluster::shared`] is the server for all tests of a process, started on first use. A test that
//! stops or restarts a server, or sets its parameters, starts its own. Both kinds are gone,
//! directory and all, soon after the process ends, even if it is killed (see `supervisor`).
//!
//! It listens on a socket in its directory and on 127.0.0.1, and trusts every client; the superuser
//! is `postgres`. Committed data survives [`Stop::Crash`] on every cluster: without
//! [`durable`](Settings::durable) nothing is synced, but the kernel keeps what was written. Such a
//! cluster is in memory where there is room: a database is some 300 files, and tests make hundreds.

use std::env;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::database::{Database, FIRST};
use super::programs::{USER, binaries, free_port, passing};
use super::psql::Target;
use super::supervisor::Supervisor;
use super::until;

/// The number of starts that are tried when another program has taken the port.
const STARTS_MAX: u32 = 5;

/// The settings that a cluster is started with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// True to sync to the disk, as in production; tests of speed need it, others only pay for it.
    pub durable: bool,
    /// The parameters of the server by name, such as `max_connections` (300 if not set).
    pub parameters: Vec<(String, String)>,
}

impl Settings {
    /// Makes the server sync to the disk.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Sets a parameter of the server.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: impl ToString) -> Self {
        self.parameters.push((name.into(), value.to_string()));
        self
    }
}

/// The way in which a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Clients are told that their connections end (57P01); the server writes all it has.
    Fast,
    /// Everything ends at once; the next start recovers from the log.
    Crash,
}

/// The data of a server that never ran. `initdb` takes most of the time of a start, so it runs
/// once in a process and each cluster begins as a copy.
struct Template(Supervisor);

impl Template {
    fn make() -> Self {
        let mut template = Self(Supervisor::spawn(&passing(), "QUIT"));
        let data = template.data();
        template.0.run(&[
            // A given time zone spares initdb the search for the machine's.
            "env",
            "TZ=UTC",
            binaries().join("initdb").to_str().unwrap(),
            "--no-sync",
            "--no-instructions",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            &format!("--username={USER}"),
            &data,
        ]);
        template
    }

    fn data(&self) -> String {
        format!("{}/data", self.0.directory().to_str().unwrap())
    }
}

/// A running server, with its directory.
pub struct Cluster {
    supervisor: Supervisor,
    place: Target,
    command: Vec<String>,
    pid: u32,
    databases: AtomicU32,
}

impl Cluster {
    /// Returns the cluster that all tests of this process share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Self::with(&Settings::default()))
    }

    /// Starts a cluster for one test.
    pub fn with(settings: &Settings) -> Self {
        static TEMPLATE: OnceLock<Template> = OnceLock::new();
        Self::from(TEMPLATE.get_or_init(Template::make), settings)
    }

    fn from(template: &Template, settings: &Settings) -> Self {
        let copy = |supervisor: &mut Supervisor, data: &str| {
            supervisor.run(&["cp", "-r", "-p", &template.data(), data]);
        };
        Self::on(settings, copy)
    }

    /// Starts a standby of this server. It replays what it is sent until it is
    /// [promoted](Self::promote).
    pub fn standby(&self) -> Self {
        let program = binaries().join("pg_basebackup");
        let (program, host) = (
            program.to_str().unwrap(),
            self.directory().to_str().unwrap(),
        );
        let port = self.place.port.to_string();
        let copy = |supervisor: &mut Supervisor, data: &str| {
            supervisor.run(&[
                program,
                "-h",
                host,
                "-p",
                &port,
                "-U",
                USER,
                "-D",
                data,
                "-R",
                "-c",
                "fast",
                "--no-sync",
            ]);
        };
        Self::on(&Settings::default(), copy)
    }

    /// Makes a standby a server of its own.
    pub fn promote(&self) {
        let promoted = self.place.run(FIRST, "select pg_promote()");
        assert_eq!(promoted.as_deref(), Ok("t"), "{}", self.log());
    }

    /// Returns this server's copy of a database of another server.
    pub fn copy_of(&self, database: &Database) -> Database {
        Database::known(self.place.clone(), database.name().to_owned())
    }

    /// Starts a server on data that `put` writes where it is told.
    fn on(settings: &Settings, put: impl FnOnce(&mut Supervisor, &str)) -> Self {
        let programs = binaries();
        let place = if settings.durable {
            env::temp_dir()
        } else {
            passing()
        };
        let mut supervisor = Supervisor::spawn(&place, "QUIT");
        let directory = supervisor.directory().to_str().unwrap().to_owned();
        let data = format!("{directory}/data");
        put(&mut supervisor, &data);
        let mut cluster = Self {
            place: Target {
                psql: programs.join("psql"),
                directory: directory.clone().into(),
                port: 0,
            },
            supervisor,
            command: Vec::new(),
            pid: 0,
            databases: AtomicU32::new(0),
        };
        for _ in 0..STARTS_MAX {
            let port = free_port();
            cluster.place.port = port;
            cluster.command = vec![
                programs.join("postgres").to_str().unwrap().to_owned(),
                "-D".into(),
                data.clone(),
            ];
            for (name, value) in parameters(settings, &directory, port) {
                cluster
                    .command
                    .extend(["-c".into(), format!("{name}={value}")]);
            }
            if cluster.try_start() {
                return cluster;
            }
        }
        panic!("no port for a server: {}", cluster.log());
    }

    /// Makes an empty database, which is dropped with the value.
    pub fn database(&self) -> Database {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        Database::create(self.place.clone(), format!("test_{number}"))
    }

    /// Returns the process id of the server's first process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the TCP port, which a restart keeps.
    pub fn port(&self) -> u16 {
        self.place.port
    }

    /// Returns the directory with the socket, the data and the log.
    pub fn directory(&self) -> &Path {
        self.supervisor.directory()
    }

    /// Returns the log of the server.
    pub fn log(&self) -> String {
        self.supervisor.log()
    }

    /// Stops the server; when this returns, it has ended.
    pub fn stop(&mut self, how: Stop) {
        self.supervisor.end(match how {
            Stop::Fast => "INT",
            Stop::Crash => "QUIT",
        });
    }

    /// Starts a stopped server again, at the same addresses.
    pub fn start(&mut self) {
        assert!(self.try_start(), "its port was taken: {}", self.log());
    }

    /// Stops the server and starts it again.
    pub fn restart(&mut self, how: Stop) {
        self.stop(how);
        self.start();
    }

    /// Starts the server and waits until it serves; returns false if its port is taken.
    fn try_start(&mut self) -> bool {
        let said_before = self.log().len();
        let command: Vec<&str> = self.command.iter().map(String::as_str).collect();
        self.pid = self.supervisor.start(&command);
        let process = format!("/proc/{}/stat", self.pid);
        let mut serves = false;
        until(
            || {
                serves = self.serves();
                // A process that has ended stays a zombie until the supervisor waits for it.
                let stat = fs::read_to_string(&process).unwrap_or_default();
                serves || stat.is_empty() || stat.contains(") Z ")
            },
            || format!("the server does not come up: {}", self.log()),
        );
        if !serves {
            self.supervisor.end("QUIT");
            let said = self.log().split_off(said_before);
            assert!(said.contains("Address already in use"), "{said}");
        }
        serves
    }

    /// Returns true once the server has written that it is ready, or that it is a standby that can
    /// be asked. The file may be a former server's: its first line is the process that wrote it.
    fn serves(&self) -> bool {
        let file = self.directory().join("data/postmaster.pid");
        let told = fs::read_to_string(file).unwrap_or_default();
        let mut lines = told.lines();
        lines.next() == Some(&self.pid.to_string())
            && lines
                .nth(6)
                .is_some_and(|state| ["ready", "standby"].contains(&state.trim()))
    }
}

fn parameters(settings: &Settings, directory: &str, port: u16) -> Vec<(String, String)> {
    let switch = if settings.durable { "on" } else { "off" };
    let ours = [
        ("max_connections", "300"),
        ("fsync", switch),
        ("full_page_writes", switch),
        (
            "max_wal_size",
            if settings.durable { "1GB" } else { "128MB" },
        ),
        ("listen_addresses", "127.0.0.1"),
        ("port", &port.to_string()),
        ("unix_socket_directories", directory),
    ];
    ours.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .chain(settings.parameters.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Lines};
    use std::process::{Child, ChildStdout, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// The variable whose presence makes the child of a test.
    const CHILD: &str = "TENURE_TESTKIT_CLUSTER_CHILD";

    fn running(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    /// A child that has a cluster. Its output stays open: without a reader it would fail.
    struct Owner {
        child: Child,
        _output: Lines<BufReader<ChildStdout>>,
        server: u32,
        directory: String,
    }

    /// Starts one of these tests again, as a child that has a cluster.
    fn child_with_a_cluster(test: &str) -> Owner {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = output
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| Some(line.strip_prefix("cluster ")?.to_owned()))
            .unwrap();
        let (server, directory) = told.split_once(' ').unwrap();
        let server = server.parse().unwrap();
        assert!(running(server) && Path::new(directory).exists());
        Owner {
            child,
            _output: output,
            server,
            directory: directory.into(),
        }
    }

    /// Does the work of the child: it has a cluster until its input ends.
    fn be_the_child() {
        let cluster = Cluster::shared();
        println!(
            "\ncluster {} {}",
            cluster.pid(),
            cluster.directory().display()
        );
        for _ in std::io::stdin().lines() {}
    }

    fn gone_within_5_s(owner: &Owner) {
        let end = Instant::now() + Duration::from_secs(5);
        while running(owner.server) || Path::new(&owner.directory).exists() {
            assert!(
                Instant::now() < end,
                "left: {} {}",
                owner.server,
                owner.directory
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_killed_test_process_leaves_neither_server_nor_directory() {
        if env::var_os(CHILD).is_some() {
            return be_the_child();
        }
        let mut owner = child_with_a_cluster(
            "postgres::cluster::tests::a_killed_test_process_leaves_neither_server_nor_directory",
        );
        owner.child.kill().unwrap();
        owner.child.wait().unwrap();
        gone_within_5_s(&owner);
    }

    #[test]
    fn a_test_process_that_ends_leaves_neither_server_nor_directory() {
        if env::var_os(CHILD).is_some() {
            return be_the_child();
        }
        let mut owner = child_with_a_cluster(
            "postgres::cluster::tests::a_test_process_that_ends_leaves_neither_server_nor_directory",
        );
        drop(owner.child.stdin.take());
        assert!(owner.child.wait().unwrap().success());
        gone_within_5_s(&owner);
    }

    #[test]
    fn a_dropped_cluster_is_gone() {
        let cluster = Cluster::with(&Settings::default());
        let (pid, directory) = (cluster.pid(), cluster.directory().to_owned());
        assert!(running(pid));
        drop(cluster);
        assert!(!running(pid) && !directory.exists());
    }

    /// Returns the processor time of a process and of those that it has waited for.
    fn processor_time(pid: u32) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // The name may hold blanks; it ends at the last parenthesis. Fields 14 to 17 are read.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks: u64 = fields
            .split(' ')
            .skip(11)
            .take(4)
            .map(|ticks| ticks.parse::<u64>().unwrap())
            .sum();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Processor time counts, because nothing in a start waits for time to pass, and the clock on
    /// the wall measures everything else that the machine does.
    #[test]
    fn the_first_cluster_of_a_process_costs_less_than_3_s() {
        let template = Template::make();
        let cluster = Cluster::from(&template, &Settings::default());
        let cost: Duration = [template.0.pid(), cluster.supervisor.pid(), cluster.pid()]
            .map(processor_time)
            .iter()
            .sum();
        assert!(
            cost > Duration::from_millis(50),
            "{cost:?} cannot be all of it"
        );
        assert!(cost < Duration::from_secs(3), "{cost:?}");
    }

    #[test]
    fn what_is_committed_survives_a_restart_and_a_crash_at_the_same_address() {
        let mut cluster = Cluster::with(&Settings::default());
        let database = cluster.database();
        database.psql("create table t (n int)");
        for (n, how) in [(1, Stop::Fast), (2, Stop::Crash)] {
            database.psql(&format!("insert into t values ({n})"));
            let before = cluster.pid();
            cluster.restart(how);
            assert_ne!(cluster.pid(), before);
            assert_eq!(database.psql("select max(n) from t"), n.to_string());
        }
    }

    #[test]
    fn a_stopped_server_does_not_answer() {
        let mut cluster = Cluster::with(&Settings::default());
        let database = cluster.database();
        cluster.stop(Stop::Fast);
        database.try_psql("select 1").unwrap_err();
        cluster.start();
        assert_eq!(database.psql("select 1"), "1");
    }

    #[test]
    fn parameters_are_the_server_s() {
        let settings = Settings::default()
            .durable()
            .parameter("max_connections", 17);
        let cluster = Cluster::with(&settings);
        let database = cluster.database();
        assert_eq!(database.psql("show max_connections"), "17");
        assert_eq!(database.psql("show fsync"), "on");
        assert_eq!(Cluster::shared().database().psql("show fsync"), "off");
    }

    #[test]
    fn a_taken_port_is_told_from_other_failures() {
        let mut cluster = Cluster::with(&Settings::default());
        cluster.stop(Stop::Fast);
        let taken = std::net::TcpListener::bind(("127.0.0.1", cluster.port())).unwrap();
        assert!(!cluster.try_start());
        drop(taken);
        cluster.start();
    }

    #[test]
    #[should_panic(expected = "no_such_parameter")]
    fn a_server_that_refuses_to_start_is_told_with_what_it_said() {
        Cluster::with(&Settings::default().parameter("no_such_parameter", 1));
    }
}
