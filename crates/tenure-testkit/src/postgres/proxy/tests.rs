//! The proxy before a real server, and before a bare listener where bytes are counted.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::Proxy;
use crate::postgres::{Cluster, until};

/// Returns a client and the server's end of its connection through a proxy.
fn connected() -> (Proxy, TcpStream, TcpStream) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::before_port(server.local_addr().unwrap().port());
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    let (mut server, _) = server.accept().unwrap();
    say(&mut client, b"hello");
    hears(&mut server, b"hello");
    (proxy, client, server)
}

fn say(stream: &mut TcpStream, words: &[u8]) {
    stream.write_all(words).unwrap();
}

fn hears(stream: &mut TcpStream, words: &[u8]) {
    let mut heard = vec![0; words.len()];
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(heard, words);
}

/// Checks that nothing came although the proxy had its turns, as each answered order shows.
fn hears_nothing(proxy: &Proxy, stream: &mut TcpStream) {
    for _ in 0..50 {
        proxy.connections();
    }
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_pause_holds_both_ways_and_a_resume_loses_nothing() {
    let (proxy, mut client, mut server) = connected();
    proxy.pause();
    say(&mut client, b"ask");
    say(&mut server, b"answer");
    hears_nothing(&proxy, &mut server);
    hears_nothing(&proxy, &mut client);
    proxy.resume();
    hears(&mut server, b"ask");
    hears(&mut client, b"answer");
}

#[test]
fn paused_answers_are_held_while_requests_pass() {
    let (proxy, mut client, mut server) = connected();
    proxy.pause_answers();
    say(&mut client, b"ask");
    hears(&mut server, b"ask");
    say(&mut server, b"answer");
    hears_nothing(&proxy, &mut client);
    proxy.resume();
    hears(&mut client, b"answer");
}

#[test]
fn an_end_is_passed_on_after_the_last_byte_and_not_in_a_pause() {
    let (proxy, mut client, mut server) = connected();
    proxy.pause();
    say(&mut client, b"bye");
    drop(client);
    hears_nothing(&proxy, &mut server);
    assert_eq!(proxy.connections(), 1);
    proxy.resume();
    hears(&mut server, b"bye");
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    drop(server);
    until(|| proxy.connections() == 0, || "a connection stays".into());
}

#[test]
fn a_cut_resets_both_ends_even_in_a_pause() {
    for paused in [false, true] {
        let (proxy, mut client, mut server) = connected();
        if paused {
            proxy.pause();
        }
        proxy.cut();
        for end in [&mut client, &mut server] {
            let error = end.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        assert_eq!(proxy.connections(), 0);
    }
}

#[test]
fn new_connections_are_refused_and_admitted_again_while_old_ones_stay() {
    let (proxy, mut client, mut server) = connected();
    proxy.refuse();
    let error = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    say(&mut client, b"still here");
    hears(&mut server, b"still here");
    proxy.admit();
    TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
}

#[test]
fn much_passes_unchanged_both_ways() {
    let (_proxy, mut client, mut server) = connected();
    let much: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    std::thread::scope(|scope| {
        for end in [&client, &server] {
            let (mut end, much) = (end.try_clone().unwrap(), &much);
            scope.spawn(move || say(&mut end, much));
        }
        scope.spawn(|| hears(&mut client, &much));
        hears(&mut server, &much);
    });
}

#[test]
fn a_statement_is_carried_out_while_its_answer_is_held() {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let mut session = database.session_at(&proxy.url_through(&database));
    let backend = session.backend();
    proxy.pause_answers();
    session.send("select 'granted' from pg_advisory_lock(1, 7)");
    let held =
        format!("select count(*) from pg_locks where pid = {backend} and locktype = 'advisory'");
    until(|| database.psql(&held) == "1", || "not carried out".into());
    assert!(!session.has_answered());
    proxy.resume();
    assert_eq!(session.answer(), "granted");
}

#[test]
fn the_server_ends_the_session_of_a_cut_connection() {
    let database = Cluster::shared().database();
    let proxy = Proxy::before(&database);
    let mut session = database.session_at(&proxy.url_through(&database));
    let backend = session.backend();
    let count = format!("select count(*) from pg_stat_activity where pid = {backend}");
    assert_eq!(database.psql(&count), "1");
    proxy.cut();
    until(
        || database.psql(&count) == "0",
        || "the session stays".into(),
    );
}
