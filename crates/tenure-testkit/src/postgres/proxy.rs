//! A TCP proxy that behaves as bad networks do.
//!
//! One thread owns the listener and every connection, so that an order is carried out between two
//! bytes: when [`Proxy::pause`] returns nothing moves any more, when [`Proxy::cut`] returns every
//! connection is reset.
//!
//! While bytes stand still, ends of connections do, too: a client that dies in a pause is still
//! connected as far as the server knows, until [`Proxy::resume`]. New connections are taken by the
//! kernel and wait, as they do before a host that is cut off.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::set_socket_linger;

use super::database::Database;
use super::programs::free_port;

/// The number of bytes that one direction of a connection holds before its source has to wait.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// A running proxy. Dropping it resets all its connections.
pub struct Proxy {
    port: u16,
    orders: Sender<Order>,
    /// The way to wake the thread: a byte makes it look at its orders, the end makes it end.
    wake: Option<UnixStream>,
    done: Receiver<usize>,
    answered: Arc<Answered>,
    thread: Option<JoinHandle<()>>,
}

/// The counts of clients' requests through a proxy so far, on connections without TLS.
#[derive(Debug, Default)]
pub struct Answered {
    connections: AtomicUsize,
    statements: AtomicUsize,
    round_trips: AtomicUsize,
}

impl Answered {
    /// Returns the number of connections that were opened.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of simple queries and of executions of prepared statements.
    pub fn statements(&self) -> usize {
        self.statements.load(Ordering::SeqCst)
    }

    /// Returns the number of round trips: requests of a client that had all its answers before.
    pub fn round_trips(&self) -> usize {
        self.round_trips.load(Ordering::SeqCst)
    }
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Flow(Flow),
    Cut,
    Refuse,
    Admit,
    Count,
}

/// The bytes that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    All,
    Requests,
    None,
}

impl Proxy {
    /// Starts a proxy before the server of a database.
    pub fn before(database: &Database) -> Self {
        Self::before_port(database.port())
    }

    /// Starts a proxy before the server at a port of this machine.
    pub fn before_port(server: u16) -> Self {
        let (listener, port) = loop {
            let port = free_port();
            if let Ok(listener) = listen(port) {
                break (listener, port);
            }
        };
        let (orders, ordered) = channel();
        let (tell, done) = channel();
        let (wake, wakes) = UnixStream::pair().unwrap();
        let worker = Worker {
            port,
            server,
            listener: Some(listener),
            links: Vec::new(),
            flow: Flow::All,
            answered: Arc::default(),
        };
        Self {
            answered: Arc::clone(&worker.answered),
            port,
            orders,
            wake: Some(wake),
            done,
            thread: Some(thread::spawn(move || worker.run(wakes, &ordered, &tell))),
        }
    }

    /// Returns the address of a database through the proxy.
    pub fn url_through(&self, database: &Database) -> String {
        database.at(&format!("127.0.0.1:{}", self.port))
    }

    /// Returns the port that the proxy listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops moving bytes in both directions; connections stay.
    pub fn pause(&self) {
        self.order(Order::Flow(Flow::None));
    }

    /// Holds back the server's answers; requests of clients still reach it. A statement is then
    /// carried out, and its client does not know.
    pub fn pause_answers(&self) {
        self.order(Order::Flow(Flow::Requests));
    }

    /// Moves all bytes again, those held back first.
    pub fn resume(&self) {
        self.order(Order::Flow(Flow::All));
    }

    /// Resets every connection, to client and server; bytes that were held back are gone.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Stops listening: new connections are refused, and the present ones stay.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    /// Listens again after [`refuse`](Self::refuse), at the same port.
    pub fn admit(&self) {
        self.order(Order::Admit);
    }

    /// Returns the counts of clients' requests so far.
    pub fn answered(&self) -> &Answered {
        &self.answered
    }

    /// Returns the number of connections that pass through the proxy.
    pub fn connections(&self) -> usize {
        self.order(Order::Count)
    }

    /// Has an order carried out; returns the number of connections then.
    fn order(&self, order: Order) -> usize {
        self.orders.send(order).expect("the proxy runs");
        self.wake
            .as_ref()
            .expect("it is not dropped")
            .write_all(&[0])
            .unwrap();
        self.done.recv().expect("the proxy runs")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The state of the proxy's thread.
struct Worker {
    port: u16,
    server: u16,
    listener: Option<TcpListener>,
    links: Vec<Link>,
    flow: Flow,
    answered: Arc<Answered>,
}

impl Worker {
    fn run(mut self, mut wakes: UnixStream, orders: &Receiver<Order>, done: &Sender<usize>) {
        loop {
            self.wait(&wakes);
            if is_woken(&wakes) {
                let mut byte = [0];
                if wakes.read(&mut byte).unwrap() == 0 {
                    return;
                }
                self.obey(orders.recv().unwrap());
                done.send(self.links.len()).unwrap();
            }
            if self.flow != Flow::None {
                self.accept();
            }
            let flow = self.flow;
            self.links.retain_mut(|link| link.step(flow));
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&self, wakes: &UnixStream) {
        let mut interests = vec![PollFd::new(wakes, PollFlags::IN)];
        if self.flow != Flow::None {
            interests.extend(self.listener.iter().map(|l| PollFd::new(l, PollFlags::IN)));
        }
        for link in &self.links {
            let interests_of_link = link.interests(self.flow).into_iter();
            interests
                .extend(interests_of_link.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        }
        match poll(&mut interests, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Flow(flow) => self.flow = flow,
            Order::Cut => self.links.clear(),
            Order::Refuse => self.listener = None,
            Order::Admit => self.listener = Some(listen(self.port).unwrap()),
            Order::Count => {}
        }
    }

    fn accept(&mut self) {
        while let Some(Ok((client, _))) = self.listener.as_ref().map(TcpListener::accept) {
            // If the server is gone, the client is reset, as by a host without a server.
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.server));
            set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            if let Ok(server) = TcpStream::connect(address) {
                self.links.push(Link::new(client, server, &self.answered));
            }
        }
    }
}

fn is_woken(wakes: &UnixStream) -> bool {
    let mut interest = [PollFd::new(wakes, PollFlags::IN)];
    let now = rustix::event::Timespec::default();
    poll(&mut interest, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// A client and its connection to the server. Dropping this resets both, unless both ends were
/// passed on in order.
struct Link {
    client: TcpStream,
    server: TcpStream,
    requests: Pipe,
    answers: Pipe,
    conversation: Conversation,
}

/// The requests of a client and their answers, read as they pass.
struct Conversation {
    answered: Arc<Answered>,
    requests: Messages,
    answers: Messages,
    /// The number of answers that are still to come.
    outstanding: usize,
}

impl Conversation {
    fn new(answered: &Arc<Answered>) -> Self {
        answered.connections.fetch_add(1, Ordering::SeqCst);
        Self {
            answered: Arc::clone(answered),
            // The first message of a client has a length, and no byte before it.
            requests: Messages {
                typed: false,
                ..Messages::default()
            },
            answers: Messages::default(),
            outstanding: 0,
        }
    }

    /// Counts the requests in these bytes. A client that sends several at once makes one round
    /// trip.
    fn asked(&mut self, bytes: &[u8]) {
        for kind in self.requests.pass(bytes) {
            if kind == b'Q' || kind == b'E' {
                self.answered.statements.fetch_add(1, Ordering::SeqCst);
            }
            if kind == b'S' || kind == b'Q' {
                if self.outstanding == 0 {
                    self.answered.round_trips.fetch_add(1, Ordering::SeqCst);
                }
                self.outstanding += 1;
            }
        }
    }

    fn answered(&mut self, mut bytes: &[u8]) {
        if self.answers.is_new() {
            // The answer to a request for TLS is a byte of its own, which says that there is none.
            bytes = bytes.strip_prefix(b"N").unwrap_or(bytes);
        }
        for kind in self.answers.pass(bytes) {
            if kind == b'Z' {
                self.outstanding = self.outstanding.saturating_sub(1);
            }
        }
    }
}

/// The messages of one direction. Each is a byte for its kind, then its length, which counts
/// itself.
struct Messages {
    typed: bool,
    /// The beginning of a message whose length is not known yet.
    head: Vec<u8>,
    /// The number of bytes of a message that are still to come.
    rest: usize,
    seen: usize,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            typed: true,
            head: Vec::new(),
            rest: 0,
            seen: 0,
        }
    }
}

impl Messages {
    /// The length of a request for TLS. The client's first message comes after it.
    const ASKS_FOR_TLS: usize = 8;

    fn is_new(&self) -> bool {
        self.seen == 0 && self.head.is_empty()
    }

    /// Returns the kinds of the messages that begin in these bytes.
    fn pass(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut kinds = Vec::new();
        while !bytes.is_empty() {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = &bytes[skipped..];
            let Some((first, others)) = bytes.split_first() else {
                break;
            };
            self.head.push(*first);
            bytes = others;
            let (kind, length) = if self.typed {
                self.head.split_at(1)
            } else {
                (&b"?"[..], &self.head[..])
            };
            if let Ok(length) = <[u8; 4]>::try_from(length) {
                let length = u32::from_be_bytes(length) as usize;
                kinds.extend(kind);
                self.typed |= length != Self::ASKS_FOR_TLS;
                self.rest = length.saturating_sub(4);
                self.head.clear();
                self.seen += 1;
            }
        }
        kinds
    }
}

/// One direction of a link.
#[derive(Default)]
struct Pipe {
    held: VecDeque<u8>,
    /// True once the source has ended.
    ended: bool,
    /// True once that end was passed on.
    closed: bool,
}

impl Link {
    fn new(client: TcpStream, server: TcpStream, answered: &Arc<Answered>) -> Self {
        for end in [&client, &server] {
            end.set_nonblocking(true).unwrap();
            end.set_nodelay(true).unwrap();
            set_socket_linger(end, Some(Duration::ZERO)).unwrap();
        }
        Self {
            client,
            server,
            requests: Pipe::default(),
            answers: Pipe::default(),
            conversation: Conversation::new(answered),
        }
    }

    fn interests(&self, flow: Flow) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut interests = Vec::new();
        if flow != Flow::None {
            interests.extend(self.requests.interests(&self.client, &self.server));
        }
        if flow == Flow::All {
            interests.extend(self.answers.interests(&self.server, &self.client));
        }
        interests
    }

    /// Moves the bytes that can be moved; returns false when the link is over.
    fn step(&mut self, flow: Flow) -> bool {
        let mut alive = Ok(());
        if flow != Flow::None {
            let pass = |bytes: &[u8]| self.conversation.asked(bytes);
            alive = self.requests.step(&self.client, &self.server, pass);
        }
        if flow == Flow::All {
            let pass = |bytes: &[u8]| self.conversation.answered(bytes);
            alive = alive.and(self.answers.step(&self.server, &self.client, pass));
        }
        if self.requests.closed && self.answers.closed {
            // This end is in order: a reset must not lose the bytes that the kernel has yet to
            // deliver.
            for end in [&self.client, &self.server] {
                set_socket_linger(end, None).unwrap();
            }
            return false;
        }
        alive.is_ok()
    }
}

impl Pipe {
    /// Returns the events to wait for. A socket of which nothing is wanted is left out: its hang-up
    /// would be reported all the time.
    fn interests<'a>(
        &self,
        from: &'a TcpStream,
        to: &'a TcpStream,
    ) -> Vec<(BorrowedFd<'a>, PollFlags)> {
        let mut interests = Vec::new();
        if !self.ended && self.held.len() < HELD_BYTES_MAX {
            interests.push((from.as_fd(), PollFlags::IN));
        }
        if !self.held.is_empty() {
            interests.push((to.as_fd(), PollFlags::OUT));
        }
        interests
    }

    fn step(
        &mut self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        mut pass: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut bytes = [0; 8 * 1024];
        while !self.ended && self.held.len() < HELD_BYTES_MAX {
            match from.read(&mut bytes) {
                Ok(0) => self.ended = true,
                Ok(length) => {
                    pass(&bytes[..length]);
                    self.held.extend(&bytes[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while !self.held.is_empty() {
            match to.write(self.held.as_slices().0) {
                Ok(length) => drop(self.held.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.ended && self.held.is_empty() && !self.closed {
            self.closed = true;
            to.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
