//! A TCP proxy that behaves as bad networks do.
//!
//! One thread owns the listener and every connection, so that an order is carried out between
//! two bytes: when [`Proxy::pause`] returns nothing moves any more, when [`Proxy::cut`] returns
//! every connection is reset.
//!
//! While bytes stand still, so do ends: a client that dies in a pause is still connected as far
//! as the server knows, until [`Proxy::resume`]. New connections are taken by the kernel and
//! wait, as they do before a host that is cut off.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::set_socket_linger;

use super::database::Database;
use super::programs::free_port;

/// How much one direction of a connection holds before its source has to wait.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// A running proxy; dropping it resets all its connections.
pub struct Proxy {
    port: u16,
    orders: Sender<Order>,
    /// A byte here makes the thread look at its orders; its end makes it end.
    bell: Option<UnixStream>,
    done: Receiver<usize>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Flow(Flow),
    Cut,
    Refuse,
    Admit,
    Count,
}

/// Which bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    All,
    Requests,
    None,
}

impl Proxy {
    /// A proxy before the server of a database.
    pub fn before(database: &Database) -> Self {
        Self::before_port(database.port())
    }

    /// A proxy before whoever listens at a port of this machine.
    pub fn before_port(server: u16) -> Self {
        let (listener, port) = loop {
            let port = free_port();
            if let Ok(listener) = listen(port) {
                break (listener, port);
            }
        };
        let (orders, ordered) = channel();
        let (tell, done) = channel();
        let (bell, rings) = UnixStream::pair().unwrap();
        let works = Works {
            port,
            server,
            listener: Some(listener),
            links: Vec::new(),
            flow: Flow::All,
        };
        Self {
            port,
            orders,
            bell: Some(bell),
            done,
            thread: Some(thread::spawn(move || works.run(rings, &ordered, &tell))),
        }
    }

    /// The address of a database through it.
    pub fn url_through(&self, database: &Database) -> String {
        database.at(&format!("127.0.0.1:{}", self.port))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops moving bytes, either way; connections stay.
    pub fn pause(&self) {
        self.order(Order::Flow(Flow::None));
    }

    /// Holds back what the server says; what clients say still reaches it. A statement is then
    /// carried out and its client does not know.
    pub fn pause_answers(&self) {
        self.order(Order::Flow(Flow::Requests));
    }

    /// Moves all bytes again, those held back first.
    pub fn resume(&self) {
        self.order(Order::Flow(Flow::All));
    }

    /// Resets every connection, to client and server; what was held back is gone.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Stops listening: new connections are refused, those there are stay.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    /// Listens again after [`refuse`](Self::refuse), at the same port.
    pub fn admit(&self) {
        self.order(Order::Admit);
    }

    /// How many connections pass through it.
    pub fn connections(&self) -> usize {
        self.order(Order::Count)
    }

    /// Has an order carried out; answers how many connections there are then.
    fn order(&self, order: Order) -> usize {
        self.orders.send(order).expect("the proxy runs");
        self.bell
            .as_ref()
            .expect("it is not dropped")
            .write_all(&[0])
            .unwrap();
        self.done.recv().expect("the proxy runs")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.bell = None;
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

/// What the thread owns.
struct Works {
    port: u16,
    server: u16,
    listener: Option<TcpListener>,
    links: Vec<Link>,
    flow: Flow,
}

impl Works {
    fn run(mut self, mut rings: UnixStream, orders: &Receiver<Order>, done: &Sender<usize>) {
        loop {
            self.wait(&rings);
            if rings_waiting(&rings) {
                let mut ring = [0];
                if rings.read(&mut ring).unwrap() == 0 {
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
    fn wait(&self, rings: &UnixStream) {
        let mut interests = vec![PollFd::new(rings, PollFlags::IN)];
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
            // Without a server the client is reset, as by a host without one.
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.server));
            set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            if let Ok(server) = TcpStream::connect(address) {
                self.links.push(Link::new(client, server));
            }
        }
    }
}

fn rings_waiting(rings: &UnixStream) -> bool {
    let mut interest = [PollFd::new(rings, PollFlags::IN)];
    let now = rustix::event::Timespec::default();
    poll(&mut interest, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// A client and its connection to the server. Both are reset when it is dropped, unless both
/// ends were passed on in order.
struct Link {
    client: TcpStream,
    server: TcpStream,
    requests: Pipe,
    answers: Pipe,
}

/// One direction of a link.
#[derive(Default)]
struct Pipe {
    held: VecDeque<u8>,
    /// The source has said all.
    ended: bool,
    /// And its end was passed on.
    closed: bool,
}

impl Link {
    fn new(client: TcpStream, server: TcpStream) -> Self {
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

    /// Moves what can be moved; false when the link is over.
    fn step(&mut self, flow: Flow) -> bool {
        let mut alive = Ok(());
        if flow != Flow::None {
            alive = self.requests.step(&self.client, &self.server);
        }
        if flow == Flow::All {
            alive = alive.and(self.answers.step(&self.server, &self.client));
        }
        if self.requests.closed && self.answers.closed {
            // An orderly end: what the kernel has still to deliver must not be lost by a reset.
            for end in [&self.client, &self.server] {
                set_socket_linger(end, None).unwrap();
            }
            return false;
        }
        alive.is_ok()
    }
}

impl Pipe {
    /// What to wait for. A socket of which nothing is wanted is left out: its hang-up would be
    /// reported all the time.
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

    fn step(&mut self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        let mut bytes = [0; 8 * 1024];
        while !self.ended && self.held.len() < HELD_BYTES_MAX {
            match from.read(&mut bytes) {
                Ok(0) => self.ended = true,
                Ok(length) => self.held.extend(&bytes[..length]),
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
