//! A server that is away while a store is opened: it restarts, is starting up, ends connections, or
//! was never there.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure_testkit::postgres::{Cluster, Settings, Stop};

use crate::process::Process;
use crate::scene::{Scene, address};
use crate::world::{World, code, text};

/// Longer than a command without a wait takes on a busy machine, and shorter than any wait here.
const AT_ONCE: Duration = Duration::from_secs(10);
/// The wait that these commands ask for.
const LONG: &str = "60s";

/// The answer to a connection while the server is away.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// An error with this code, once the client has said who it is.
    Error(&'static str),
    /// An end without any message.
    Reset,
}

/// A server that admits no client, and counts the connections.
struct Refusing {
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl Refusing {
    fn with(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                refuse(client.unwrap(), answer);
            }
        });
        Self { port, asked }
    }

    fn world(&self) -> World {
        let port = self.port;
        World::at(&format!(
            "postgres://ana:x@127.0.0.1:{port}/x?sslmode=disable"
        ))
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn refuse(mut client: TcpStream, answer: Answer) {
    let mut hello = [0; 1024];
    // A client that has left needs no answer.
    let _ = client.read(&mut hello);
    if let Answer::Error(state) = answer {
        let fields = format!("SFATAL\0VFATAL\0C{state}\0Mnot now\0\0");
        let length = u32::try_from(fields.len() + 4).unwrap();
        let mut message = vec![b'E'];
        message.extend(length.to_be_bytes());
        message.extend(fields.bytes());
        let _ = client.write_all(&message);
    }
}

#[test]
fn a_server_that_restarts_is_waited_for_until_the_wait_is_over() {
    let mut cluster = Cluster::with(&Settings::default());
    let database = cluster.database();
    let by_socket = World::at(&address(&database.url()));
    let by_tcp = World::at(&address(&database.tcp_url()));
    let lease = by_tcp.lock(["--ttl", "1h", "--mode", "upgradeable", "z"]);
    cluster.stop(Stop::Fast);
    let mut waiting = Vec::new();
    for world in [&by_socket, &by_tcp] {
        let run = ["run", "--wait", LONG, "x", "--", "true"];
        waiting.push(Process::tenure(world, run));
        let lock = ["lock", "--wait", LONG, "--ttl", "1s", "y"];
        waiting.push(Process::tenure(world, lock));
        let advisory = [
            "advisory", "run", "--wait", LONG, "agent", "1", "--", "true",
        ];
        waiting.push(Process::tenure(world, advisory));
    }
    let upgrade = ["upgrade", "--wait", LONG, &lease];
    waiting.push(Process::tenure(&by_tcp, upgrade));
    // A command that did not ask to wait gives up later than this.
    waiting.push(Process::tenure(&by_tcp, ["ls"]));
    thread::sleep(Duration::from_secs(3));
    for one in &mut waiting {
        assert!(!one.is_over(), "it gave up");
    }
    cluster.start();
    for one in waiting {
        let output = one.end();
        assert_eq!(code(&output), 0, "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("waiting for postgres://"), "{said}");
    }
}

#[test]
fn a_connection_that_is_refused_for_the_moment_is_tried_again_until_the_wait_is_over() {
    for answer in [
        Answer::Error("57P01"),
        Answer::Error("57P02"),
        Answer::Error("57P03"),
        Answer::Error("53300"),
        Answer::Reset,
    ] {
        let server = Refusing::with(answer);
        let began = Instant::now();
        let output = server.world().run(["--wait", "3s", "x", "--", "true"]);
        assert_eq!(code(&output), 69, "{answer:?}: {output:?}");
        assert!(server.asked() > 1, "{answer:?}: asked {}", server.asked());
        assert!(began.elapsed() > Duration::from_secs(1), "{answer:?}");
        let server = Refusing::with(answer);
        let output = server.world().run(["--no-wait", "x", "--", "true"]);
        assert_eq!(code(&output), 69, "{answer:?}: {output:?}");
        assert_eq!(server.asked(), 1, "{answer:?}");
    }
}

#[test]
fn what_waiting_does_not_help_fails_at_once() {
    let wrong_password = Refusing::with(Answer::Error("28P01"));
    let without_tls = Scene::new().database.tcp_url();
    let cases = [
        (wrong_password.world().store(), 78),
        ("postgres://ana@no-such-host.invalid/x".into(), 69),
        (format!("{without_tls}?sslmode=require"), 78),
    ];
    for (url, expected) in cases {
        let began = Instant::now();
        let output = World::at(&url).run(["--wait", LONG, "x", "--", "true"]);
        assert_eq!(code(&output), expected, "{url}: {output:?}");
        assert!(began.elapsed() < AT_ONCE, "{url}: {:?}", began.elapsed());
    }
    assert_eq!(wrong_password.asked(), 1);
}

#[test]
fn where_no_wait_is_asked_for_on_the_command_line_a_server_is_waited_for_15_s_at_most() {
    let server = Refusing::with(Answer::Reset);
    let world = server.world();
    let start = |arguments: &[&str]| {
        let mut command = world.tenure();
        command.env("TENURE_LOCK_TIMEOUT", "60");
        Process::start(command.args(arguments))
    };
    let began = Instant::now();
    let waiting = [
        start(&["run", "x", "--", "true"]),
        start(&["lock", "x"]),
        start(&["ls"]),
    ];
    for one in waiting {
        let output = one.end();
        assert_eq!(code(&output), 69, "{output:?}");
        let waited = began.elapsed();
        assert!(waited > Duration::from_secs(12), "{waited:?}");
        assert!(waited < Duration::from_secs(25), "{waited:?}");
    }
}

#[test]
fn backends_that_are_terminated_while_a_store_is_opened_are_no_pooler_and_tried_again() {
    let scene = Scene::new();
    assert_eq!(code(&scene.world.call(["ls"])), 0);
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut psql = scene.database.session();
            while !enough.load(Ordering::SeqCst) {
                psql.run(
                    "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                     where datname = current_database() and application_name like 'tenure%'",
                );
            }
        });
        let waiting: Vec<_> = (0..8)
            .map(|number| {
                let name = format!("x{number}");
                let run = ["run", "--wait", LONG, &name, "--", "true"];
                Process::tenure(&scene.world, run)
            })
            .collect();
        thread::sleep(Duration::from_secs(3));
        enough.store(true, Ordering::SeqCst);
        for one in waiting {
            let output = one.end();
            assert_eq!(code(&output), 0, "{output:?}");
        }
    });
}
