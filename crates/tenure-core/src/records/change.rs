//! A change of records: the names, the comparisons and the writes in it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::record::body_text;
use super::{Columns, Record, RecordKey, WakeAddress};
use crate::audit::NewEntry;
use crate::token::fenced;
use crate::{Error, Lease, LeaseId, LeaseState, Owner, Resource, Result, Timestamp, Token};

/// A change names at most this many records.
pub const KEYS_MAX: usize = 100;

/// The pure function that decides on a change. It may be called more than once.
pub type Decide<'a> = dyn Fn(&Seen) -> Result<Changes> + Send + Sync + 'a;

/// The version that a caller relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Any version, or no record at all.
    Any,
    /// No such record.
    Absent,
    /// Exactly this version.
    Version(u64),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Any => f.write_str("any version"),
            Expected::Absent => f.write_str("no record"),
            Expected::Version(version) => write!(f, "version {version}"),
        }
    }
}

/// A lease that must be held, with this token, when the change is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The resource of the lease.
    pub resource: Resource,
    /// The token of the lease. It must be the newest of the resource.
    pub token: Token,
    /// The lease, or `None` if only the token is compared.
    pub lease: Option<LeaseId>,
}

impl Fence {
    /// Compares this with the store: with the lease, if it is there, and with the newest token of
    /// the resource.
    fn compare(&self, found: Option<&Lease>, newest: Option<Token>) -> Result<()> {
        let newest = newest.unwrap_or(Token::NONE);
        if newest != self.token {
            return Err(fenced(&self.resource, self.token, newest, "this store"));
        }
        let Some(lease) = &self.lease else {
            return Ok(());
        };
        let found =
            found.filter(|found| found.resource == self.resource && found.token == self.token);
        match found.map(|found| found.state) {
            Some(LeaseState::Held | LeaseState::Unknown) => Ok(()),
            Some(LeaseState::Expired) => Err(Error::over(lease, "its time is over")),
            Some(LeaseState::Revoking) => Err(Error::over(lease, "a person breaks it")),
            Some(LeaseState::Offered) => Err(Error::over(lease, "it was not taken up")),
            None => Err(Error::not_held(lease)),
        }
    }
}

/// A change to be made: what it names and compares, and the function that decides.
#[derive(Clone)]
pub struct RecordChange<'a> {
    keys: BTreeMap<RecordKey, Expected>,
    fences: Vec<Fence>,
    /// The coding agent that asks, if one was detected: it is the actor of every entry for the
    /// audit.
    agent: Option<Owner>,
    decide: &'a Decide<'a>,
}

impl<'a> RecordChange<'a> {
    /// Names the records of a change. The change can write these and no others.
    pub fn new(keys: impl IntoIterator<Item = RecordKey>, decide: &'a Decide<'a>) -> Self {
        let keys = keys.into_iter().map(|key| (key, Expected::Any));
        Self {
            keys: keys.collect(),
            fences: Vec::new(),
            agent: None,
            decide,
        }
    }

    /// Sets the coding agent that asks. It is the actor of every entry, whichever the function
    /// names.
    #[must_use]
    pub fn under_agent(mut self, agent: Option<Owner>) -> Self {
        self.agent = agent;
        self
    }

    /// Names a record, and the version of it that the caller relies on.
    #[must_use]
    pub fn expecting(mut self, key: RecordKey, expected: Expected) -> Self {
        self.keys.insert(key, expected);
        self
    }

    /// Adds a lease, or a token, to be compared in the same transaction.
    #[must_use]
    pub fn under(mut self, fence: Fence) -> Self {
        self.fences.push(fence);
        self.fences.sort_by(|a, b| a.resource.cmp(&b.resource));
        self
    }

    /// Returns the keys in the order in which they are locked.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &RecordKey> {
        self.keys.keys()
    }

    /// Returns the leases and tokens to compare, sorted by resource.
    pub fn fences(&self) -> &[Fence] {
        &self.fences
    }

    /// Fails if the change names no records, or too many.
    ///
    /// # Errors
    ///
    /// `BadInput` in both cases.
    pub fn check(&self) -> Result<()> {
        if (1..=KEYS_MAX).contains(&self.keys.len()) {
            return Ok(());
        }
        Err(Error::BadInput(format!(
            "a change names 1 to {KEYS_MAX} records, not {}",
            self.keys.len()
        )))
    }

    /// Compares leases, tokens and versions, asks the function of the caller, and returns the rows
    /// to write. `found` has, for every fence, its lease and the newest token of its resource.
    ///
    /// # Errors
    ///
    /// `NotAllowed` and `LeaseOver` if a lease or token is no longer good, `RecordChanged` if a
    /// record has another version, `BadInput` for a record that cannot be kept, and the errors of
    /// the caller's function.
    pub fn decided(
        &self,
        loaded: Vec<Record>,
        found: &[(Option<Lease>, Option<Token>)],
        now: Timestamp,
    ) -> Result<Decided> {
        for (index, fence) in self.fences.iter().enumerate() {
            let (lease, newest) = found
                .get(index)
                .map_or((None, None), |(l, t)| (l.as_ref(), *t));
            fence.compare(lease, newest)?;
        }
        let records = loaded
            .into_iter()
            .map(|record| (record.key.clone(), record));
        let seen = Seen {
            records: records.collect(),
            now,
        };
        for (key, expected) in &self.keys {
            compare_version(key, *expected, seen.get(key))?;
        }
        let mut changes = (self.decide)(&seen)?;
        for note in &mut changes.notes {
            note.actor = self.agent.clone().unwrap_or_else(|| note.actor.clone());
        }
        let mut writes = Vec::with_capacity(changes.puts.len());
        for (key, put) in changes.puts {
            if !self.keys.contains_key(&key) {
                return Err(Error::Internal(format!(
                    "{key} is written and was not named"
                )));
            }
            writes.extend(write(seen.get(&key), key, put, now)?);
        }
        Ok(Decided {
            writes,
            notes: changes.notes,
            wake: changes.wake,
        })
    }
}

fn compare_version(key: &RecordKey, expected: Expected, found: Option<&Record>) -> Result<()> {
    let good = match (expected, found) {
        (Expected::Any, _) | (Expected::Absent, None) => true,
        (Expected::Version(version), Some(found)) => version == found.version,
        _ => false,
    };
    if good {
        return Ok(());
    }
    let actual = found.map_or(Expected::Absent, |found| Expected::Version(found.version));
    Err(Error::RecordChanged {
        record: key.to_string(),
        expected: expected.to_string(),
        actual: actual.to_string(),
    })
}

/// Returns the write for a record: `put` is its new content, or `None` to delete it. Returns `None`
/// if there is nothing to do.
fn write(
    before: Option<&Record>,
    key: RecordKey,
    put: Option<(Columns, Value)>,
    now: Timestamp,
) -> Result<Option<Write>> {
    let Some((columns, body)) = put else {
        return Ok(before.map(|_| Write::Delete(key)));
    };
    columns.check(&key)?;
    let text = body_text(&key, &body)?;
    let record = Record {
        version: before.map_or(0, |before| before.version) + 1,
        columns,
        body,
        changed_at: now,
        key,
    };
    Ok(Some(match before {
        None => Write::Insert(record, text),
        Some(before) if before.columns == record.columns => Write::Body(record, text),
        Some(_) => Write::All(record, text),
    }))
}

/// The named records as they are, for the function that decides.
#[derive(Debug)]
pub struct Seen {
    records: BTreeMap<RecordKey, Record>,
    /// The time of the change.
    pub now: Timestamp,
}

impl Seen {
    /// Returns a record, or `None` if there is none.
    pub fn get(&self, key: &RecordKey) -> Option<&Record> {
        self.records.get(key)
    }
}

/// The decision of a function: records to write or delete, entries for the audit, and sessions to
/// wake.
#[derive(Debug, Default)]
pub struct Changes {
    puts: BTreeMap<RecordKey, Option<(Columns, Value)>>,
    notes: Vec<NewEntry>,
    wake: Vec<WakeAddress>,
}

impl Changes {
    /// Writes a record, whether or not there was one.
    pub fn put(&mut self, key: RecordKey, columns: Columns, body: Value) {
        self.puts.insert(key, Some((columns, body)));
    }

    /// Deletes a record, if there is one.
    pub fn delete(&mut self, key: RecordKey) {
        self.puts.insert(key, None);
    }

    /// Adds an entry to the audit.
    pub fn note(&mut self, note: NewEntry) {
        self.notes.push(note);
    }

    /// Wakes a session that listens.
    pub fn wake(&mut self, address: WakeAddress) {
        self.wake.push(address);
    }
}

/// One write of a change. The text is that of the body.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new record.
    Insert(Record, String),
    /// A new body and version; the columns stay, and so do their indexes.
    Body(Record, String),
    /// A new body and version, and other columns.
    All(Record, String),
    /// The end of a record.
    Delete(RecordKey),
}

/// The rows that a store has to write.
#[derive(Debug)]
pub struct Decided {
    /// The records, in the order of their keys.
    pub writes: Vec<Write>,
    /// The entries for the audit.
    pub notes: Vec<NewEntry>,
    /// The sessions that are woken after the commit.
    pub wake: Vec<WakeAddress>,
}

impl Decided {
    /// Returns the records as they are after the writes.
    pub fn written(self) -> Vec<Record> {
        let written = |write| match write {
            Write::Insert(record, _) | Write::Body(record, _) | Write::All(record, _) => {
                Some(record)
            }
            Write::Delete(_) => None,
        };
        self.writes.into_iter().filter_map(written).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Mode, SessionId};
    use serde_json::json;

    fn key(id: &str) -> RecordKey {
        RecordKey::new("k", id).unwrap()
    }

    fn record(id: &str, version: u64) -> Record {
        Record {
            key: key(id),
            version,
            columns: Columns::default(),
            body: json!(version),
            changed_at: Timestamp::from_millis(0),
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(1)
    }

    fn put_a(_: &Seen) -> Result<Changes> {
        let mut changes = Changes::default();
        changes.put(key("a"), Columns::default(), json!("new"));
        Ok(changes)
    }

    #[test]
    fn a_version_the_caller_brings_is_compared() {
        let cases = [
            (Expected::Any, None, true),
            (Expected::Any, Some(3), true),
            (Expected::Absent, None, true),
            (Expected::Absent, Some(3), false),
            (Expected::Version(3), Some(3), true),
            (Expected::Version(3), Some(4), false),
            (Expected::Version(3), None, false),
        ];
        for (expected, there, good) in cases {
            let change = RecordChange::new([], &put_a).expecting(key("a"), expected);
            let loaded = there.map(|version| record("a", version));
            let decided = change.decided(loaded.into_iter().collect(), &[], now());
            let class = decided.map_err(|error| error.class()).err();
            assert_eq!(
                class,
                (!good).then_some(Class::Conflict),
                "{expected} {there:?}"
            );
        }
    }

    #[test]
    fn a_new_record_has_version_1_and_every_change_adds_one() {
        let change = RecordChange::new([key("a")], &put_a);
        for (loaded, version) in [(vec![], 1), (vec![record("a", 7)], 8)] {
            let decided = change.decided(loaded, &[], now()).unwrap();
            let written = decided.written();
            assert_eq!(
                (written[0].version, written[0].changed_at),
                (version, now())
            );
        }
    }

    #[test]
    fn only_named_records_are_written_and_only_what_fits() {
        let unnamed = RecordChange::new([key("b")], &put_a).decided(vec![], &[], now());
        assert_eq!(unnamed.unwrap_err().class(), Class::Internal);
        let large = |_: &Seen| {
            let mut changes = Changes::default();
            let body = "x".repeat(super::super::BODY_BYTES_MAX - 1);
            changes.put(key("a"), Columns::default(), json!(body));
            Ok(changes)
        };
        let large = RecordChange::new([key("a")], &large).decided(vec![], &[], now());
        assert_eq!(large.unwrap_err().class(), Class::BadInput);
        let none = RecordChange::new([], &put_a).check();
        assert_eq!(none.unwrap_err().class(), Class::BadInput);
    }

    fn lease(token: u64, state: LeaseState) -> Lease {
        let asker = crate::Asker {
            session: SessionId::parse("s").unwrap(),
            owner: Owner::parse("ana").unwrap(),
            pid: 1,
            host: "h".into(),
            command: "c".into(),
            agent: None,
        };
        let (id, resource) = (LeaseId::parse("l").unwrap(), Resource::parse("x").unwrap());
        let token = Token::new(token).unwrap();
        let mut lease = Lease::granted(id, resource, Mode::Write, token, now(), asker);
        lease.state = state;
        lease
    }

    #[test]
    fn a_lease_that_is_over_or_fenced_changes_nothing() {
        let fence = |token| Fence {
            resource: Resource::parse("x").unwrap(),
            token: Token::new(token).unwrap(),
            lease: Some(LeaseId::parse("l").unwrap()),
        };
        let newest = |token| Some(Token::new(token).unwrap());
        let cases = [
            (7, Some(lease(7, LeaseState::Held)), newest(7), true),
            (7, Some(lease(7, LeaseState::Held)), newest(8), false),
            (7, Some(lease(8, LeaseState::Held)), newest(7), false),
            (7, Some(lease(7, LeaseState::Expired)), newest(7), false),
            (7, Some(lease(7, LeaseState::Revoking)), newest(7), false),
            (7, Some(lease(7, LeaseState::Offered)), newest(7), false),
            (7, None, newest(7), false),
            (7, None, None, false),
        ];
        for (token, lease, newest, good) in cases {
            let change = RecordChange::new([key("a")], &put_a).under(fence(token));
            let decided = change.decided(vec![], &[(lease.clone(), newest)], now());
            let class = decided.map_err(|error| error.class()).err();
            assert_eq!(
                class,
                (!good).then_some(Class::NotAllowed),
                "{lease:?} {newest:?}"
            );
        }
    }

    #[test]
    fn a_record_that_is_not_there_needs_no_delete() {
        let delete = |_: &Seen| {
            let mut changes = Changes::default();
            changes.delete(key("a"));
            Ok(changes)
        };
        let change = RecordChange::new([key("a")], &delete);
        assert_eq!(change.decided(vec![], &[], now()).unwrap().writes, []);
        let there = change.decided(vec![record("a", 1)], &[], now()).unwrap();
        assert_eq!(there.writes, [Write::Delete(key("a"))]);
    }
}
