//! One step: a transaction, the decision in it, and the processes it wakes.
//!
//! # The protocol
//!
//! 1. `BEGIN`; the row of the resource is locked; then clock, holders and line are read (`load`).
//!    This is one round trip.
//! 2. [`decide`] decides, and the changes become statements (`change`). Nothing is sent for this:
//!    tokens are drawn from the locked row and the clock. Only if the decision used up the front of
//!    a long line is the rest of it read.
//! 3. All statements are sent, then the row of the resource with its new token and `alone`, the
//!    notifications, and `COMMIT`: one round trip. The notifications go out with the commit, and
//!    only with it.
//!
//! A crash, a cut connection or a dropped future before 3 changes nothing: the server rolls the
//! transaction back, at the latest when it has idled for a while, and releases the lock on the row.
//! In 3 the outcome may be unknown: the caller looks again by the id of its lease, and finds what
//! was done. After 3 all is done, including the wake-up.
//!
//! Two steps on one resource never overlap: the second is in its first statement until the first
//! has committed, and reads after that. A step about several resources locks their rows in the
//! order of their names, so two of them never wait for each other.
//!
//! # On disk
//!
//! A commit is on disk before its caller is told, with one exception: a step that only hands over.
//! No caller relies on an offer before it is taken up, and the commit that takes it up puts both on
//! disk. If the server crashes in between, the lease that was released is there again and expires.

use tenure_core::audit::Action;
use tenure_core::decide::{Ask, Decision, Holder, HolderState, Millis, State, decide};
use tenure_core::internal::loaded::LineExtent;
use tenure_core::{Error, Lease, LeaseId, Mode, Owner, Resource, Result, Token};
use tokio_postgres::Row;

use super::audit;
use super::inner::Inner;
use super::load::{Loaded, ResourceRow, StepTarget, alone, load, load_line, read, read_line};
use super::moment::Moment;
use super::order;
use super::pool::{PooledConnection, Transaction};
use super::row::{LeaseRow, leases, read_leases, signed};
use super::sql::{Flush, Statement, values};

/// A transaction under way, with the changes it will write.
pub(super) struct Step<'a> {
    pub(super) store: &'a Inner,
    pub(super) tx: Transaction,
    pub(super) moment: Moment,
    /// The rows that were loaded, with changed leases as they are now.
    pub(super) loaded: Loaded,
    /// The actor for the audit; `None` stands for the owner that took the lease.
    pub(super) actor: Option<Owner>,
    /// The row of the resource as it will be written. `None` in a step on several resources, which
    /// leaves their rows as they are.
    row: Option<ResourceRow>,
    /// The row of the resource as it was read.
    original_row: Option<ResourceRow>,
    /// The state that is decided upon, after all changes so far.
    pub(super) state: State,
    writes: Vec<Statement<'a>>,
    /// The processes to notify, and the leases to name to them.
    wake: (Vec<String>, Vec<String>),
    pub(super) flush: Flush,
}

impl<'a> Step<'a> {
    /// Begins a step on a resource, for a caller whose time ends at `until`. Returns `None` if the
    /// resource was never locked.
    pub(super) async fn on(
        store: &'a Inner,
        until: Millis,
        resource: &Resource,
        extent: LineExtent<'_>,
    ) -> Result<Option<Self>> {
        let connection = store.lend_until(until).await?;
        let target = StepTarget::Resource(resource);
        let begun = Self::begin(store, connection, target, extent, Vec::new()).await?;
        Ok(begun.map(|(step, _)| step))
    }

    /// Begins a step on a resource, and also returns the order of locks that is written down. It
    /// does not change before the step ends.
    pub(super) async fn on_with_order(
        store: &'a Inner,
        until: Millis,
        resource: &Resource,
        extent: LineExtent<'_>,
    ) -> Result<Option<(Self, Option<String>)>> {
        let connection = store.lend_until(until).await?;
        let target = StepTarget::Resource(resource);
        let also = order::lock_and_read();
        let begun = Self::begin(store, connection, target, extent, also).await?;
        let Some((step, answers)) = begun else {
            return Ok(None);
        };
        Ok(Some((step, order::read(&answers)?)))
    }

    /// Begins a step on the resource of a lease. Returns `None` if there is no such lease.
    pub(super) async fn of_lease(store: &'a Inner, lease: &LeaseId) -> Result<Option<Self>> {
        let connection = store.lend().await?;
        let (target, extent) = (StepTarget::Lease(lease), LineExtent::FrontAnd(lease));
        let begun = Self::begin(store, connection, target, extent, Vec::new()).await?;
        Ok(begun.map(|(step, _)| step))
    }

    async fn begin(
        store: &'a Inner,
        connection: PooledConnection,
        target: StepTarget<'_>,
        extent: LineExtent<'_>,
        also: Vec<Statement<'_>>,
    ) -> Result<Option<(Self, Vec<Vec<Row>>)>> {
        let mut first = Vec::from(load(target, extent));
        let loads = first.len();
        first.extend(also);
        let (tx, mut answers) = connection.begin(&first).await?;
        let others = answers.split_off(loads.min(answers.len()));
        let found = match read(target, &answers, extent) {
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
        step.original_row = Some(row.clone());
        step.row = Some(row);
        Ok(Some((step, others)))
    }

    /// Begins a step on leases of several resources, and loads only the rows of these leases:
    /// enough for a change that concerns no other lease or waiter. The step may not end a lease or
    /// begin one. Also returns the rows of another statement, sent after the rows were locked.
    pub(super) async fn of_leases(
        store: &'a Inner,
        leases: &[LeaseId],
        also: Option<Statement<'_>>,
    ) -> Result<(Self, Vec<Row>)> {
        const LOCK: &str = "SELECT r.resource FROM tenure.resources r WHERE r.resource IN \
            (SELECT h.resource FROM tenure.dal_locks h WHERE h.lock_id = ANY ($1)) \
            ORDER BY r.resource FOR UPDATE";
        const LEASES: &str = leases!("l.lock_id = ANY ($1)");
        let ids: Vec<&str> = leases.iter().map(LeaseId::as_str).collect();
        let mut first = vec![
            Statement::new(LOCK, values![ids.clone()]),
            Statement::new(LEASES, values![ids]),
        ];
        first.extend(also);
        let (tx, mut answers) = store.lend_urgently().await?.begin(&first).await?;
        let found = answers.get(1).and_then(|rows| {
            let moment = Moment::read(rows.first()?, 0);
            Some(moment.and_then(|moment| Ok((moment, read_leases(rows)?))))
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
            original_row: None,
            state: loaded.state(),
            loaded,
            writes: Vec::new(),
            wake: (Vec::new(), Vec::new()),
            flush: Flush::Now,
        }
    }

    /// Returns the resource of the step.
    pub(super) fn resource(&self) -> Result<&Resource> {
        let row = self.row.as_ref().map(|row| &row.resource);
        row.ok_or_else(|| Error::Internal("a step on several resources".into()))
    }

    /// Decides on the resource. Nothing is written yet. If the decision used up the loaded part of
    /// the line, the whole line is loaded and decided upon.
    pub(super) async fn decide(&mut self, ask: &Ask) -> Result<Decision> {
        let decision = decide(&self.state, ask, self.moment.now());
        if !self.loaded.is_exhausted_by(&decision) {
            return Ok(decision);
        }
        let resource = self.resource()?.clone();
        let rows = self.tx.rows(&load_line(&resource, LineExtent::All)).await?;
        (self.loaded.waiters, self.loaded.front_ends) = read_line(&rows, LineExtent::All)?;
        self.state = self.loaded.state();
        Ok(decide(&self.state, ask, self.moment.now()))
    }

    /// Decides on one lease alone, for a change that concerns no other lease or waiter.
    pub(super) fn decide_alone(&self, row: &LeaseRow, ask: &Ask) -> Decision {
        decide(&Loaded::alone(row).state(), ask, self.moment.now())
    }

    /// Adds a statement to send with the commit. Its rows are not returned.
    pub(super) fn add(&mut self, write: Statement<'a>) {
        self.writes.push(write);
    }

    /// Notifies the process of a lease or a waiter with the commit.
    pub(super) fn wake(&mut self, process: &str, lease: &LeaseId) {
        self.wake.0.push(process.to_owned());
        self.wake.1.push(lease.to_string());
    }

    /// Returns true if the step grants something to a waiter.
    pub(super) fn hands_over(&self) -> bool {
        let offered = |holder: &Holder| {
            matches!(holder.state, HolderState::Offered { .. })
                && self.loaded.lease(&holder.lease).is_none()
        };
        self.state.holders.iter().any(offered)
    }

    /// Returns the token of a grant: a new one if it is exclusive, else the current one.
    pub(super) fn token_for(&mut self, mode: Mode) -> Result<Token> {
        let row = self.row.as_mut();
        let row = row.ok_or_else(|| Error::Internal("a grant in a step on several".into()))?;
        if mode.is_exclusive() {
            let next = row.token.next(self.moment.micros);
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
        let mut entry = audit::NewEntry::of_lease(action, lease, self.actor.as_ref());
        entry.reason = reason.map(str::to_owned);
        self.add(audit::append(&entry, ends, &self.moment));
    }

    /// Writes all changes and ends the step.
    pub(super) async fn commit(mut self) -> Result<()> {
        const ROW: &str = "UPDATE tenure.resources SET token = $2, alone = $3 WHERE resource = $1";
        if let (Some(mut row), Some(original)) = (self.row.take(), self.original_row.take()) {
            row.alone = alone(&self.state, self.loaded.front_ends.is_some());
            if row.token != original.token || row.alone != original.alone {
                let values = values![row.resource.to_string(), signed(row.token), row.alone];
                self.writes.push(Statement::new(ROW, values));
            }
        }
        let (processes, leases) = std::mem::take(&mut self.wake);
        if !processes.is_empty() {
            self.writes.push(notify(processes, leases));
        }
        if self.writes.is_empty() {
            return self.tx.roll_back().await;
        }
        self.tx.commit(&self.writes, self.flush).await
    }

    /// Notes that a lease has another id from now on.
    pub(super) fn rename(&mut self, lease: &LeaseId, new: &LeaseId) {
        let mut holders = self.state.holders.iter_mut();
        if let Some(holder) = holders.find(|holder| holder.lease == *lease) {
            holder.lease = new.clone();
        }
    }

    /// Ends the step without a change.
    pub(super) async fn roll_back(self) -> Result<()> {
        self.tx.roll_back().await
    }
}

/// Returns the statement that wakes waiters when the transaction commits: the process of each, and
/// the id it waits under. The channel has the name that `listener` gives it.
pub(super) fn notify(processes: Vec<String>, waiters: Vec<String>) -> Statement<'static> {
    const NOTIFY: &str = "SELECT pg_catalog.pg_notify('tenure_' || t.process, t.lease) \
        FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS t (process, lease)";
    Statement::new(NOTIFY, values![processes, waiters])
}
