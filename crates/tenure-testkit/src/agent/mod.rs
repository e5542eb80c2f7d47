//! Agents: the clients that take locks in a test.
//!
//! An agent has one session and obeys commands. It is a process of its own, or a thread of this one
//! with a runtime of its own; a test need not know which. It can crash (SIGKILL, or a panic that
//! unwinds it) and be stopped (SIGSTOP, or a thread that does nothing at all).

mod gate;
pub mod lease_words;
mod leases;
mod obey;
pub mod process;
pub(crate) mod tend;
mod thread;
pub mod words;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tenure::{Keeper, Lease, Mode, Resource, SessionId, Token};

use crate::budget::Budget;
use process::Process;
use thread::Thread;
use words::{Answer, Command, Failure, Notes, Order, Reply};

/// The time that agents wait for locks that will be granted. Tests fail long before.
pub const LONG_WAIT: Duration = Duration::from_secs(600);

/// Parses a resource.
pub fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

/// A command under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "its answer is to be looked at"]
pub struct Pending(u64);

/// One session in a process or thread of its own.
pub struct Agent {
    owner: String,
    session: Option<SessionId>,
    pid: u32,
    runner: Runner,
    answered: Receiver<Reply>,
    early: HashMap<u64, Answer>,
    orders: u64,
}

/// The process or thread of an agent.
enum Runner {
    Process(Process),
    Thread(Thread),
}

impl Agent {
    /// Starts an agent in a child process.
    pub fn process(command: std::process::Command, owner: &str) -> Agent {
        let (process, answered) = Process::start(command);
        Self::new(Runner::Process(process), answered, owner)
    }

    /// Starts an agent in a thread of this process.
    pub fn thread(keeper: Keeper, owner: &str) -> Agent {
        let (thread, answered) = Thread::start(keeper);
        Self::new(Runner::Thread(thread), answered, owner)
    }

    fn new(runner: Runner, answered: Receiver<Reply>, owner: &str) -> Agent {
        let mut agent = Agent {
            owner: owner.into(),
            session: None,
            pid: 0,
            runner,
            answered,
            early: HashMap::new(),
            orders: 0,
        };
        match agent.answer(Pending(0)) {
            Answer::Ready { pid } => agent.pid = pid,
            other => panic!("{owner} began with {other:?}"),
        }
        agent.reopen();
        agent
    }

    /// Ends the agent's session, with all it holds and awaits, and begins a new one.
    pub fn reopen(&mut self) {
        let owner = self.owner.clone();
        match self.ask(Command::Open { owner }) {
            Answer::Opened { session } => self.session = Some(session),
            other => panic!("{} did not open: {other:?}", self.owner),
        }
    }

    /// Returns the owner that the agent works for.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the id of the agent's session.
    pub fn session(&self) -> &SessionId {
        self.session.as_ref().expect("a session is opened at once")
    }

    /// Returns the id of the agent's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a command and does not wait for the answer.
    pub fn send(&mut self, command: Command) -> Pending {
        self.orders += 1;
        let id = self.orders;
        let order = Order { id, command };
        match &mut self.runner {
            Runner::Process(process) => process.send(&order),
            Runner::Thread(thread) => thread.send(order),
        }
        Pending(id)
    }

    /// Returns the answer, or `None` if it has not come yet.
    pub fn answered(&mut self, pending: Pending) -> Option<Answer> {
        while let Ok(Reply { id, answer }) = self.answered.try_recv() {
            self.early.insert(id, answer);
        }
        self.early.remove(&pending.0)
    }

    /// Waits for the answer.
    pub fn answer(&mut self, pending: Pending) -> Answer {
        let mut budget = Budget::default();
        loop {
            if let Some(answer) = self.early.remove(&pending.0) {
                return answer;
            }
            match self.answered.recv_timeout(Budget::SLICE) {
                Ok(Reply { id, answer }) => {
                    self.early.insert(id, answer);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let owner = &self.owner;
                    budget.spend(|| format!("{owner} does not answer"));
                }
                Err(RecvTimeoutError::Disconnected) => panic!("{} has ended", self.owner),
            }
        }
    }

    /// Sends a command and waits for the answer.
    pub fn ask(&mut self, command: Command) -> Answer {
        let pending = self.send(command);
        self.answer(pending)
    }

    /// Crashes the agent; when this returns, nothing of it is left. It can do nothing more.
    pub fn crash(&mut self) {
        match &mut self.runner {
            Runner::Process(process) => process.kill(),
            Runner::Thread(_) => {
                let _ = self.send(Command::Crash);
                let Runner::Thread(thread) = &mut self.runner else {
                    unreachable!("a runner stays what it is")
                };
                thread.end();
            }
        }
    }

    /// Stops the agent; when this returns, it does nothing until it is resumed.
    pub fn stop(&mut self) {
        match &mut self.runner {
            Runner::Process(process) => process.stop(),
            Runner::Thread(_) => {
                let answer = self.ask(Command::Stop);
                assert!(matches!(answer, Answer::Done), "{answer:?}");
            }
        }
    }

    /// Lets a stopped agent go on.
    pub fn resume(&mut self) {
        match &mut self.runner {
            Runner::Process(process) => process.resume(),
            Runner::Thread(thread) => thread.resume(),
        }
    }

    /// Ends the process without releasing anything. A thread cannot do that and crashes.
    pub fn exit(&mut self) {
        match &mut self.runner {
            Runner::Process(_) => {
                let _ = self.send(Command::Exit);
                let Runner::Process(process) = &mut self.runner else {
                    unreachable!("a runner stays what it is")
                };
                assert!(process.end_of_input().success());
            }
            Runner::Thread(_) => self.crash(),
        }
    }

    /// Ends a process by the end of its commands.
    pub fn end_of_input(&mut self) -> std::process::ExitStatus {
        match &mut self.runner {
            Runner::Process(process) => process.end_of_input(),
            Runner::Thread(_) => panic!("a thread has no input"),
        }
    }
}

/// Short forms, which fail the test if the answer is another one.
impl Agent {
    /// Takes a lock that is free.
    pub fn take(&mut self, name: &str, mode: Mode) -> Lease {
        let owner = self.owner.clone();
        let taken = self.try_take(name, mode);
        taken.unwrap_or_else(|| panic!("{name} is not free for {owner} to {mode}"))
    }

    /// Tries to take a lock.
    pub fn try_take(&mut self, name: &str, mode: Mode) -> Option<Lease> {
        let resource = resource(name);
        match self.ask(Command::Try { resource, mode }) {
            Answer::Granted { mut leases } => leases.pop(),
            Answer::NotAcquired => None,
            other => panic!("{} tried {name} ({mode}): {other:?}", self.owner),
        }
    }

    /// Asks for a lock with a long wait, and goes on without the answer.
    pub fn want(&mut self, name: &str, mode: Mode) -> Pending {
        self.want_for(name, mode, LONG_WAIT)
    }

    /// Asks for a lock with this wait, and goes on without the answer.
    pub fn want_for(&mut self, name: &str, mode: Mode, wait: Duration) -> Pending {
        self.send(Command::Acquire {
            resource: resource(name),
            mode,
            wait,
            notes: Notes::default(),
        })
    }

    /// Waits for the lock that was asked for.
    pub fn granted(&mut self, pending: Pending) -> Lease {
        match self.answer(pending) {
            Answer::Granted { mut leases } => leases.pop().unwrap(),
            other => panic!("{} was not granted: {other:?}", self.owner),
        }
    }

    /// Waits for the failure of a command.
    pub fn failed(&mut self, pending: Pending) -> Failure {
        match self.answer(pending) {
            Answer::Failed(failure) => failure,
            other => panic!("{} did not fail: {other:?}", self.owner),
        }
    }

    /// Drops a command under way. Returns true if it was not done before.
    pub fn cancel(&mut self, pending: Pending) -> bool {
        let _ = self.send(Command::Cancel { order: pending.0 });
        matches!(self.answer(pending), Answer::Cancelled)
    }

    /// Releases a lock.
    pub fn release(&mut self, name: &str) {
        let resource = resource(name);
        let answer = self.ask(Command::Release { resource });
        assert!(
            matches!(answer, Answer::Done),
            "{} did not release {name}: {answer:?}",
            self.owner
        );
    }

    /// Asks for an upgrade, and goes on without the answer.
    pub fn want_upgrade(&mut self, name: &str, wait: Duration) -> Pending {
        let resource = resource(name);
        self.send(Command::Upgrade { resource, wait })
    }

    /// Waits for the upgrade that was asked for.
    pub fn upgraded(&mut self, pending: Pending) -> Token {
        match self.answer(pending) {
            Answer::Upgraded { token } => token,
            other => panic!("{} was not upgraded: {other:?}", self.owner),
        }
    }

    /// Upgrades if no wait is needed.
    pub fn try_upgrade(&mut self, name: &str) -> Option<Token> {
        let resource = resource(name);
        match self.ask(Command::TryUpgrade { resource }) {
            Answer::Upgraded { token } => Some(token),
            Answer::NotAcquired => None,
            other => panic!("{} tried to upgrade {name}: {other:?}", self.owner),
        }
    }

    /// Goes back to upgradeable.
    pub fn downgrade(&mut self, name: &str) -> Lease {
        let resource = resource(name);
        match self.ask(Command::Downgrade { resource }) {
            Answer::Downgraded { lease } => *lease,
            other => panic!("{} did not downgrade {name}: {other:?}", self.owner),
        }
    }

    /// Lists the leases of all holders.
    pub fn list(&mut self) -> Vec<Lease> {
        match self.ask(Command::List) {
            Answer::Listed { leases } => leases,
            other => panic!("{} did not list: {other:?}", self.owner),
        }
    }
}
