//! A server without room for one more connection, or one that does not answer.

use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tenure_testkit::postgres::{Cluster, Database, Psql, Settings};

use crate::scene::address;
use crate::world::{World, code, signal, text, until};

/// The number of connections that the server accepts.
const ROOM: usize = 8;
/// Longer than any of these commands wants to wait, with room for a busy machine, and shorter than
/// the time that a server gets to start up.
const SOON: Duration = Duration::from_secs(12);
/// The time that a server gets to start up.
const OPENING: Duration = Duration::from_secs(15);

/// A server whose connections are all taken by others.
struct Full {
    world: World,
    others: Vec<Psql>,
    _database: Database,
    cluster: Cluster,
}

impl Full {
    fn new() -> Self {
        let settings = Settings::default()
            .parameter("max_connections", ROOM)
            .parameter("superuser_reserved_connections", 0);
        let cluster = Cluster::with(&settings);
        let database = cluster.database();
        let world = World::at(&address(&database.url()));
        assert_eq!(code(&world.call(["ls"])), 0);
        let mut others = Vec::new();
        until("others have every connection", || {
            others.extend(database.try_session());
            others.len() == ROOM
        });
        Self {
            world,
            others,
            _database: database,
            cluster,
        }
    }

    fn refusals(&self) -> usize {
        self.cluster.log().matches("too many clients").count()
    }
}

fn start(world: &World, arguments: &[&str]) -> Child {
    let mut command = world.tenure();
    command.args(arguments).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_full_server_is_waited_for_no_longer_than_the_caller_waits() {
    let full = Full::new();
    for arguments in [
        &["run", "--no-wait", "x", "--", "true"][..],
        &["run", "--wait", "1s", "x", "--", "true"],
        &["lock", "--wait", "1s", "x"],
        &[
            "advisory", "run", "--wait", "1s", "agent", "1", "--", "true",
        ],
    ] {
        let began = Instant::now();
        let output = full.world.call(arguments.iter().copied());
        assert_eq!(code(&output), 69, "{arguments:?}: {output:?}");
        assert!(
            text(&output.stderr).contains("too many clients"),
            "{output:?}"
        );
        assert!(
            began.elapsed() < SOON,
            "{arguments:?}: {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn a_full_server_is_waited_for_as_long_as_the_caller_waits() {
    let mut full = Full::new();
    let commands: [&[&str]; 3] = [
        &["run", "--wait", "2m", "x", "--", "echo", "here"],
        &["lock", "--wait", "2m", "y"],
        &[
            "advisory", "run", "--wait", "2m", "agent", "1", "--", "echo", "here",
        ],
    ];
    let mut waiting: Vec<Child> = commands.iter().map(|c| start(&full.world, c)).collect();
    thread::sleep(OPENING + Duration::from_secs(2));
    for child in &mut waiting {
        assert!(child.try_wait().unwrap().is_none(), "it gave up");
    }
    full.others.truncate(2);
    for child in waiting {
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        assert!(
            text(&output.stderr).contains("waiting for postgres://"),
            "{output:?}"
        );
    }
}

#[test]
fn whoever_waits_for_a_server_is_interrupted_at_once() {
    let full = Full::new();
    for arguments in [
        &["run", "--wait", "2m", "x", "--", "true"][..],
        &["lock", "--wait", "2m", "x"],
        &[
            "advisory", "run", "--wait", "2m", "agent", "1", "--", "true",
        ],
    ] {
        let before = full.refusals();
        let waiting = start(&full.world, arguments);
        until("it is refused, and asks again", || {
            full.refusals() > before + 1
        });
        let began = Instant::now();
        signal(waiting.id(), libc::SIGTERM);
        let output = waiting.wait_with_output().unwrap();
        assert_eq!(code(&output), 130, "{arguments:?}: {output:?}");
        assert!(
            began.elapsed() < SOON,
            "{arguments:?}: {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let world = World::at(&format!("postgres://ana@127.0.0.1:{port}/x"));
    let began = Instant::now();
    let output = world.call(["run", "--no-wait", "x", "--", "true"]);
    assert_eq!(code(&output), 69, "{output:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let output = world.call(["run", "--wait", "10m", "x", "--", "true"]);
    assert_eq!(code(&output), 69, "{output:?}");
}
