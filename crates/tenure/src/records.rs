//! The door to records, as features use it: the store's, with the retries of the keeper.
//!
//! The comparisons and writes of a change are decided in `tenure_core::records`.

use std::sync::Mutex;
pub use tenure_core::records::{
    BODY_BYTES_MAX, Changes, Column, Columns, Expected, Fence, KEYS_MAX, NewEntry, Record,
    RecordChange, RecordKey, RecordPage, RecordQuery, RecordStore, Seen, WakeAddress, WakeUps,
};

use tenure_core::internal::lock;
use tenure_core::{Error, Result, SessionId};

use crate::Keeper;
use crate::retry::retry;

/// The records of a keeper.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    keeper: &'a Keeper,
    store: &'a dyn RecordStore,
}

impl Keeper {
    /// Returns the records. `act` is the action that needs them, for the error of a store without
    /// any.
    ///
    /// # Errors
    ///
    /// `Configuration` for a store without records, naming the store.
    pub fn records(&self, act: &str) -> Result<Records<'_>> {
        let missing = || {
            Error::configuration(
                format!("{} keeps no records, which {act} needs", self.store().url()),
                "use a store that has them, such as {.store} sqlite:PATH",
            )
        };
        let store = self.store().records().ok_or_else(missing)?;
        Ok(Records {
            keeper: self,
            store,
        })
    }
}

impl<'a> Records<'a> {
    /// Returns the records of a store other than the keeper's, for tests.
    #[doc(hidden)]
    pub fn of(keeper: &'a Keeper, store: &'a dyn RecordStore) -> Self {
        Self { keeper, store }
    }

    /// Returns a record, or `None` if there is none.
    pub async fn read(&self, key: &RecordKey) -> Result<Option<Record>> {
        retry(self.keeper.retry(), || self.store.read_record(key)).await
    }

    /// Returns one page of the records of a kind.
    pub async fn list(&self, query: &RecordQuery) -> Result<RecordPage> {
        retry(self.keeper.retry(), || self.store.list_records(query)).await
    }

    /// Makes a change, durably: all of it or nothing. Returns the records that it wrote.
    ///
    /// # Errors
    ///
    /// `RecordChanged` if a record has another version, `NotAllowed` and `LeaseOver` if a lease or
    /// token is no longer good, and the errors of the change's own function.
    pub async fn change(&self, change: &RecordChange<'_>) -> Result<Vec<Record>> {
        let agent = self.keeper.settings().automated.agent();
        let change = change.clone().under_agent(agent.cloned());
        retry(self.keeper.retry(), || self.store.change_records(&change)).await
    }

    /// Makes a change whose function also returns a value, and returns the value of the call that
    /// was committed. `named` has the records of the change, each with the version that is
    /// expected.
    ///
    /// # Errors
    ///
    /// Errors of [`change`](Self::change).
    pub async fn decide<T: Send>(
        &self,
        named: impl IntoIterator<Item = (RecordKey, Expected)>,
        decide: impl Fn(&Seen) -> Result<(Changes, T)> + Send + Sync,
    ) -> Result<T> {
        self.decide_under(named, [], decide).await
    }

    /// Makes such a change while leases are held with these tokens.
    ///
    /// # Errors
    ///
    /// Errors of [`change`](Self::change).
    pub async fn decide_under<T: Send>(
        &self,
        named: impl IntoIterator<Item = (RecordKey, Expected)>,
        fences: impl IntoIterator<Item = Fence>,
        decide: impl Fn(&Seen) -> Result<(Changes, T)> + Send + Sync,
    ) -> Result<T> {
        let decided = Mutex::new(None);
        let changes = |seen: &Seen| {
            let (changes, said) = decide(seen)?;
            *lock(&decided) = Some(said);
            Ok(changes)
        };
        let mut change = RecordChange::new([], &changes);
        for (key, expected) in named {
            change = change.expecting(key, expected);
        }
        for fence in fences {
            change = change.under(fence);
        }
        self.change(&change).await?;
        let said = lock(&decided).take();
        said.ok_or_else(|| Error::Internal("a change was made without a decision".into()))
    }

    /// Begins to listen for wake-ups on behalf of a session.
    pub async fn listen(&self, session: &SessionId) -> Result<Box<dyn WakeUps>> {
        retry(self.keeper.retry(), || self.store.listen(session)).await
    }
}
