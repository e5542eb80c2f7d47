//! One step: a transaction, the decision in it, and who is woken by it.
//!
//! # The protocol
//!
//! 1. `BEGIN`, the row of the resource is locked, then clock, holders and line are read (`load`): one round trip.
//! 2. [`decide`], and the changes become statements (`change`). Nothing is asked of the database for it: tokens
//!    are drawn from the locked row and the clock. Only where the decision used up the front of a long line
//!    is the rest of it read.
//! 3. All statements, the row of the resource with its token and `alone` anew, the notifications, and `COMMIT`: one
//!    round trip. The notifications go out with the commit, and only with it.
//!
//! A crash, a cut connection or a dropped future before 3 changes nothing: the server takes the transaction back, at the
//! latest when it has idled for a while, and with it the lock on the row. In 3 the outcome may be unknown:
//! whoever asked looks again by the id of its lease, and finds what was done. After 3 all is done, the wake-up too.
//!
//! Two steps on one resource never overlap: the second is in its first statement until the first has committed, and reads
//! after that. A step about several resources locks their rows in the order of their names, so two of them never
//! wait for each other.
//!
//! # On disk
//!
//! A commit is on disk before it is told, but for one: a step that only hands over, because nobody relies on an offer
//! before it was taken up, and that commit puts both on disk. If the server crashes in between, the lease that was
//! released is there again and runs out.

use tenure_core::audit::Action;
use tenure_core::decide::{Ask, Decision, Holder, Millis, Standing, State, decide};
use tenure_core::{Error, Lease, LeaseId, Mode, Owner, Resource, Result, Token};
use tokio_postgres::Row;

use super::audit;
use super::inner::Inner;
use super::load::{About, Line, Loaded, ResourceRow, alone, load, load_line, read, read_line};
use super::moment::Moment;
use super::pool::{Lent, Transaction};
use super::row::{LeaseRow, leases, signed};
use super::sql::{Asked, Flush, values};

/// A transaction under way, with what it will write.
pub(super) struct Step<'a> {
    pub(super) store: &'a Inner,
    pub(super) tx: Transaction,
    pub(super) moment: Moment,
    /// What was loaded, and of leases that were changed what they are now.
    pub(super) loaded: Loaded,
    /// Who does it, for the audit; the owner of the lease itself where nobody is named.
    pub(super) actor: Option<Owner>,
    /// The row of the resource as it is to be. None in a step about several: that leaves the rows as they are.
    row: Option<ResourceRow>,
    /// The same as it was read.
    was: Option<ResourceRow>,
    /// What is decided upon, after all changes so far.
    state: State,
    writes: Vec<Asked<'a>>,
    /// Who is told of what: processes, and leases.
    wake: (Vec<String>, Vec<String>),
    flush: Flush,
}

impl<'a> Step<'a> {
    /// Begins a step on a resource. None if the resource was never locked.
    pub(super) async fn on(
        store: &'a Inner,
        resource: &Resource,
        line: Line<'_>,
    ) -> Result<Option<Self>> {
        Self::on_until(Millis::MAX, store, resource, line).await
    }

    /// The same for a caller whose time ends then.
    pub(super) async fn on_until(
        until: Millis,
        store: &'a Inner,
        resource: &Resource,
        line: Line<'_>,
    ) -> Result<Option<Self>> {
        let lent = store.lend_until(until).await?;
        Self::begin(store, lent, About::Resource(resource), line).await
    }

    /// Begins a step on the resource of a lease. None if there is no such lease.
    pub(super) async fn of_lease(store: &'a Inner, lease: &LeaseId) -> Result<Option<Self>> {
        let lent = store.lend().await?;
        Self::begin(store, lent, About::Lease(lease), Line::FrontAnd(lease)).await
    }

    async fn begin(
        store: &'a Inner,
        lent: Lent,
        about: About<'_>,
        line: Line<'_>,
    ) -> Result<Option<Self>> {
        let (tx, answers) = lent.begin(&load(about, line)).await?;
        let found = match read(about, &answers, line) {
            Ok(found) => found,
            Err(error) => {
                tx.give_up().await;
                return Err(error);
            }
        };
        let Some((row, moment, loaded)) = found else {
            tx.roll_back().await?;
            return Ok(None);
        };
        let mut step = Self::new(store, tx, moment, loaded);
        step.was = Some(row.clone());
        step.row = Some(row);
        Ok(Some(step))
    }

    /// Begins a step on leases of several resources, of each its own row alone: enough for what nobody else has a
    /// say in, and what cannot wait for others. It may not end a lease or begin one. What another statement found, sent after the rows were locked.
    pub(super) async fn of_leases(
        store: &'a Inner,
        leases: &[LeaseId],
        also: Option<Asked<'_>>,
    ) -> Result<(Self, Vec<Row>)> {
        const LOCK: &str = "SELECT r.resource FROM tenure.resources r WHERE r.resource IN \
            (SELECT h.resource FROM tenure.dal_locks h WHERE h.lock_id = ANY ($1)) \
            ORDER BY r.resource FOR UPDATE";
        const LEASES: &str = leases!("l.lock_id = ANY ($1)");
        let ids: Vec<&str> = leases.iter().map(LeaseId::as_str).collect();
        let mut first = vec![
            Asked::new(LOCK, values![ids.clone()]),
            Asked::new(LEASES, values![ids]),
        ];
        first.extend(also);
        let (tx, mut answers) = store.begin_urgently(&first).await?;
        let found = answers.get(1).and_then(|rows| {
            let moment = Moment::read(rows.first()?, 0);
            Some(moment.and_then(|moment| Ok((moment, LeaseRow::read_all(rows)?))))
        });
        let found = found.unwrap_or_else(|| Err(Error::Internal("the clock was not read".into())));
        match found {
            Ok((moment, leases)) => {
                let loaded = Loaded {
                    leases,
                    ..Loaded::default()
                };
                let also = answers.get_mut(2).map(std::mem::take);
                Ok((
                    Self::new(store, tx, moment, loaded),
                    also.unwrap_or_default(),
                ))
            }
            Err(error) => {
                tx.give_up().await;
                Err(error)
            }
        }
    }

    fn new(store: &'a Inner, tx: Transaction, moment: Moment, loaded: Loaded) -> Self {
        Self {
            store,
            tx,
            moment,
            actor: None,
            row: None,
            was: None,
            state: loaded.state(),
            loaded,
            writes: Vec::new(),
            wake: (Vec::new(), Vec::new()),
            flush: Flush::Now,
        }
    }

    /// The resource it is about.
    pub(super) fn resource(&self) -> Result<&Resource> {
        let row = self.row.as_ref().map(|row| &row.resource);
        row.ok_or_else(|| Error::Internal("a step on several resources".into()))
    }

    /// Decides on the resource. Nothing is written yet. Where that used up what is loaded of the line, the whole of it is
    /// loaded and decided upon.
    pub(super) async fn decide(&mut self, ask: &Ask) -> Result<Decision> {
        let decision = decide(&self.state, ask, self.moment.now());
        if !self.loaded.is_exhausted_by(&decision) {
            return Ok(decision);
        }
        let resource = self.resource()?.clone();
        let rows = self.tx.rows(&load_line(&resource, Line::All)).await?;
        (self.loaded.waiters, self.loaded.front_ends) = read_line(&rows, Line::All)?;
        self.state = self.loaded.state();
        Ok(decide(&self.state, ask, self.moment.now()))
    }

    /// Decides on one lease alone, in what nobody else has a say in.
    pub(super) fn decide_alone(&self, row: &LeaseRow, ask: &Ask) -> Decision {
        decide(&Loaded::alone(row).state(), ask, self.moment.now())
    }

    /// What is decided upon, after all changes so far.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Adds a statement to what is written with the commit. No row of it comes back.
    pub(super) fn add(&mut self, write: Asked<'a>) {
        self.writes.push(write);
    }

    /// Tells the process of a lease or a waiter to look, with the commit.
    pub(super) fn wake(&mut self, process: &str, lease: &LeaseId) {
        self.wake.0.push(process.to_owned());
        self.wake.1.push(lease.to_string());
    }

    /// Whether someone is granted something from the line with it.
    pub(super) fn hands_over(&self) -> bool {
        let offered = |holder: &Holder| {
            matches!(holder.standing, Standing::Offered { .. })
                && self.loaded.lease(&holder.lease).is_none()
        };
        self.state.holders.iter().any(offered)
    }

    /// Nobody relies on this step before another is on disk.
    pub(super) fn flush_later(&mut self) {
        self.flush = Flush::Later;
    }

    /// The token of a grant: a new one if it is exclusive, else the current one.
    pub(super) fn token_for(&mut self, mode: Mode) -> Result<Token> {
        let row = self.row.as_mut();
        let row = row.ok_or_else(|| Error::Internal("a grant in a step on several".into()))?;
        if mode.is_exclusive() {
            let next = row.token.next(self.moment.micros());
            row.token = next.ok_or_else(|| Error::Internal("no token is left".into()))?;
        }
        Ok(row.token)
    }

    /// Appends to the audit.
    pub(super) fn audit(
        &mut self,
        action: Action,
        lease: &Lease,
        reason: Option<&str>,
        ends: bool,
    ) {
        let line = audit::Line {
            action,
            resource: &lease.resource,
            lease: &lease.lease,
            token: lease.token,
            owner: &lease.owner,
            actor: self.actor.as_ref().unwrap_or(&lease.owner),
            reason,
            ends,
        };
        let entry = audit::append(&line, &self.moment);
        self.add(entry);
    }

    /// Writes all of it and ends the step.
    pub(super) async fn commit(mut self) -> Result<()> {
        const ROW: &str = "UPDATE tenure.resources SET token = $2, alone = $3 WHERE resource = $1";
        // The channel of a process is `ear`'s.
        const NOTIFY: &str = "SELECT pg_catalog.pg_notify('tenure_' || t.process, t.lease) \
            FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS t (process, lease)";
        if let (Some(mut row), Some(was)) = (self.row.take(), self.was.take()) {
            row.alone = alone(&self.state, self.loaded.front_ends.is_some());
            if row.token != was.token || row.alone != was.alone {
                let values = values![row.resource.to_string(), signed(row.token), row.alone];
                self.writes.push(Asked::new(ROW, values));
            }
        }
        let (processes, leases) = std::mem::take(&mut self.wake);
        if !processes.is_empty() {
            self.writes
                .push(Asked::new(NOTIFY, values![processes, leases]));
        }
        if self.writes.is_empty() {
            return self.tx.roll_back().await;
        }
        self.tx.commit(&self.writes, self.flush).await
    }

    /// Ends the step without a change.
    pub(super) async fn roll_back(self) -> Result<()> {
        self.tx.roll_back().await
    }
}
