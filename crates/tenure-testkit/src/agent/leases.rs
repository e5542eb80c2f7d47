//! Short forms for leases of their own. They fail the test if the answer is another one.

use std::time::Duration;

use tenure::{Lease, LeaseId, Mode, Token};

use super::lease_words::LeaseCommand;
use super::words::{Answer, Command, Failure, Kind};
use super::{Agent, LONG_WAIT, Pending, resource};

impl Agent {
    /// Locks a resource that is free.
    pub fn lock(&mut self, name: &str, mode: Mode, ttl: Duration) -> Lease {
        let owner = self.owner().to_owned();
        let asked = self.send(Command::OnLease(LeaseCommand::Lock {
            items: vec![(resource(name), mode)],
            ttl,
            wait: Duration::ZERO,
            key: None,
        }));
        match self.answer(asked) {
            Answer::Granted { mut leases } if leases.len() == 1 => leases.remove(0),
            other => panic!("{owner} could not lock {name} ({mode}): {other:?}"),
        }
    }

    /// Asks for a set with a long wait, and goes on without the answer.
    pub fn want_lock(&mut self, items: &[(&str, Mode)], ttl: Duration) -> Pending {
        self.want_keyed(items, ttl, None, LONG_WAIT)
    }

    /// Asks for a set under a key with this wait, and goes on without the answer.
    pub fn want_keyed(
        &mut self,
        items: &[(&str, Mode)],
        ttl: Duration,
        key: Option<&str>,
        wait: Duration,
    ) -> Pending {
        let items = items.iter().map(|(name, mode)| (resource(name), *mode));
        self.send(Command::OnLease(LeaseCommand::Lock {
            items: items.collect(),
            ttl,
            wait,
            key: key.map(str::to_owned),
        }))
    }

    /// Waits for the set that was asked for.
    pub fn locked(&mut self, pending: Pending) -> Vec<Lease> {
        match self.answer(pending) {
            Answer::Granted { leases } => leases,
            other => panic!("{} could not lock: {other:?}", self.owner()),
        }
    }

    /// Gives a command about leases and waits for the answer.
    pub fn on_lease(&mut self, command: LeaseCommand) -> Answer {
        self.ask(Command::OnLease(command))
    }

    /// Gives a command about leases that must be done.
    pub fn do_on_lease(&mut self, command: LeaseCommand) {
        let said = format!("{command:?}");
        let answer = self.on_lease(command);
        let owner = self.owner();
        assert!(
            matches!(answer, Answer::Done),
            "{owner}: {said}: {answer:?}"
        );
    }

    /// Gives a command about leases, and returns the lease as it is then.
    pub fn change(&mut self, command: LeaseCommand) -> Lease {
        let said = format!("{command:?}");
        match self.on_lease(command) {
            Answer::Changed { lease } => *lease,
            other => panic!("{}: {said}: {other:?}", self.owner()),
        }
    }

    /// Gives a command about leases that must be refused.
    pub fn refused(&mut self, command: LeaseCommand) -> Failure {
        let said = format!("{command:?}");
        match self.on_lease(command) {
            Answer::Failed(failure) => failure,
            other => panic!("{}: {said}: {other:?}", self.owner()),
        }
    }

    /// Gives commands about leases that must all be refused for a reason of this kind.
    pub fn all_refused(&mut self, kind: Kind, commands: impl IntoIterator<Item = LeaseCommand>) {
        for command in commands {
            let said = format!("{command:?}");
            let failure = self.refused(command);
            assert_eq!(failure.kind, kind, "{said}: {failure:?}");
        }
    }

    /// Gives a lease as much new time as it had.
    pub fn renew(&mut self, lease: &LeaseId) -> Lease {
        self.change(LeaseCommand::renew(lease))
    }

    /// Ends a lease by its id.
    pub fn release_lease(&mut self, lease: &LeaseId) {
        self.do_on_lease(LeaseCommand::release(lease));
    }

    /// Upgrades a lease that no reader holds up.
    pub fn upgrade_lease(&mut self, lease: &LeaseId) -> Token {
        let command = LeaseCommand::upgrade(lease, Duration::ZERO);
        self.change(command).token
    }

    /// Takes a lease away from its holder.
    pub fn break_lease(&mut self, lease: &LeaseId, reason: &str) -> Lease {
        self.change(LeaseCommand::Break {
            lease: lease.clone(),
            reason: reason.to_owned(),
        })
    }

    /// Returns true if a token is not the newest one; panics on any other failure.
    pub fn is_fenced(&mut self, name: &str, token: Token) -> bool {
        let resource = resource(name);
        match self.on_lease(LeaseCommand::Check { resource, token }) {
            Answer::Done => false,
            Answer::Failed(failure) if failure.kind == Kind::NotAllowed => true,
            other => panic!("{} checked {name}#{token}: {other:?}", self.owner()),
        }
    }

    /// Claims a lease: says that it is needed.
    pub fn claim(&mut self, lease: &LeaseId, claimant: &str) {
        self.do_on_lease(LeaseCommand::Claim {
            lease: lease.clone(),
            claimant: claimant.to_owned(),
        });
    }

    /// Watches a lock that the agent holds; the answer comes when the lock is lost.
    pub fn watch(&mut self, name: &str) -> Pending {
        let resource = resource(name);
        self.send(Command::Watch { resource })
    }
}
