//! The calls of the command that summarises a turn. Each is recorded before it is made, so that no
//! two go on at once and none is forgotten.
//!
//! One record for each turn, beside it: a call is recorded and committed while the row of its turn
//! stays locked.
//!
//! # Steps
//!
//! 1. [`begin`]: one durable change counts the call, and names its watcher and the latest time of
//!    its end. A turn with a call that goes on, or with [`CALLS_MAX`] calls, gets none.
//! 2. The caller makes the call, which ends by `until`: it gets less time than that, and dies with
//!    its watcher.
//! 3. [`Call::end`]: the record says that it is over.
//!
//! | crash or race | outcome |
//! |---|---|
//! | before the commit of 1 | nothing was done |
//! | two begin at once | the change of the second sees the call of the first |
//! | between 1 and 2 | a call is counted that was never made |
//! | between 2 and 3 | the call counts as going on until its time is over, or until its watcher is proved dead |
//! | 3 comes after the time is over, when another call has begun | the record has another version, and is left alone |

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::records::{Changes, Columns, Expected, RecordChange, RecordKey, Records, Seen};
use tenure::{Error, Result, Timestamp};

use super::state::read;

/// The largest number of calls for one turn, whatever their outcome.
pub const CALLS_MAX: u32 = 3;
/// The time for which a call is recorded as going on after its own time is over.
const MARGIN: Duration = Duration::from_secs(5);
/// The kind of the record.
const KIND: &str = "agent_summary";

/// The record of the calls for a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Calls {
    /// The number of calls that were begun.
    count: u32,
    /// The call that goes on.
    running: Option<RunningCall>,
}

/// A call that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RunningCall {
    /// Its watcher, for people.
    by: String,
    /// The latest time of its end.
    until: Timestamp,
}

impl Calls {
    /// Counts a call, unless another goes on or there were enough. `is_alone` is true if no watcher
    /// of an earlier call can be alive.
    fn begun(
        mut self,
        by: &str,
        time: Duration,
        now: Timestamp,
        is_alone: bool,
    ) -> Result<Self, Refused> {
        let goes_on = |running: &RunningCall| !is_alone && now < running.until;
        if self.running.as_ref().is_some_and(goes_on) {
            return Err(Refused::GoesOn);
        }
        if self.count >= CALLS_MAX {
            return Err(Refused::Enough);
        }
        self.count += 1;
        self.running = Some(RunningCall {
            by: by.to_owned(),
            until: now.after(time + MARGIN),
        });
        Ok(self)
    }
}

/// The reason why no call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Another call goes on.
    GoesOn,
    /// There were enough calls for the turn.
    Enough,
}

/// A call that was recorded, and is to be made now.
#[derive(Debug)]
pub struct Call {
    key: RecordKey,
    count: u32,
    version: u64,
}

/// Records a call for a turn, with its watcher and the time it may take.
///
/// # Errors
///
/// Errors of the store. The call must not be made then, although it may be counted.
pub async fn begin(
    records: &Records<'_>,
    turn: &RecordKey,
    by: &str,
    time: Duration,
    is_alone: bool,
) -> Result<Result<Call, Refused>> {
    let key = RecordKey::new(KIND, turn.id())?;
    let decided = |seen: &Seen| {
        let calls: Option<Calls> = seen.get(&key).map(read).transpose()?;
        Ok::<_, Error>(
            calls
                .unwrap_or_default()
                .begun(by, time, seen.now, is_alone),
        )
    };
    let refused = std::sync::Mutex::new(Refused::GoesOn);
    let decide = |seen: &Seen| {
        let mut changes = Changes::default();
        match decided(seen)? {
            Ok(calls) => put(&mut changes, &key, &calls)?,
            Err(why) => *tenure_core::internal::lock(&refused) = why,
        }
        Ok(changes)
    };
    let change = RecordChange::new([key.clone()], &decide);
    let written = records.change(&change).await?.pop();
    let Some(record) = written else {
        return Ok(Err(*tenure_core::internal::lock(&refused)));
    };
    let Calls { count, .. } = read(&record)?;
    let version = record.version;
    Ok(Ok(Call {
        key,
        count,
        version,
    }))
}

impl Call {
    /// Records that the call is over.
    ///
    /// # Errors
    ///
    /// Errors of the store. The call then counts as going on for its whole time.
    pub async fn end(self, records: &Records<'_>) -> Result<()> {
        let over = Calls {
            count: self.count,
            running: None,
        };
        let decide = |_: &Seen| {
            let mut changes = Changes::default();
            put(&mut changes, &self.key, &over)?;
            Ok(changes)
        };
        let expected = Expected::Version(self.version);
        let change = RecordChange::new([], &decide).expecting(self.key.clone(), expected);
        match records.change(&change).await {
            Ok(_) | Err(Error::RecordChanged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn put(changes: &mut Changes, key: &RecordKey, calls: &Calls) -> Result<()> {
    let body = serde_json::to_value(calls).map_err(|error| Error::Internal(error.to_string()))?;
    changes.put(key.clone(), Columns::default(), body);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }

    fn begun(calls: &Calls, seconds: i64, is_alone: bool) -> Result<Calls, Refused> {
        calls.clone().begun("ana", TIME, at(seconds), is_alone)
    }

    #[test]
    fn a_call_keeps_others_out_until_its_time_is_over_or_nobody_else_can_be_alive() {
        let first = begun(&Calls::default(), 0, false).unwrap();
        assert_eq!(begun(&first, 64, false), Err(Refused::GoesOn));
        assert_eq!(begun(&first, 65, false).unwrap().count, 2);
        assert_eq!(begun(&first, 1, true).unwrap().count, 2);
    }

    #[test]
    fn calls_are_counted_when_they_begin_and_there_are_three_at_most() {
        let mut calls = Calls::default();
        for count in 1..=CALLS_MAX {
            calls = begun(&calls, i64::from(count) * 100, false).unwrap();
            assert_eq!(calls.count, count);
        }
        assert_eq!(
            begun(&calls, 310, false),
            Err(Refused::GoesOn),
            "the third goes on"
        );
        assert_eq!(begun(&calls, 400, false), Err(Refused::Enough));
        assert_eq!(begun(&calls, 310, true), Err(Refused::Enough));
    }
}
