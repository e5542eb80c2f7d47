//! Summaries of turns, by a command from the settings.
//!
//! # Steps
//!
//! 1. The turn is locked, or skipped: on PostgreSQL its row, by `FOR UPDATE NOWAIT`, so that other
//!    programs that summarise meet here; on SQLite `turn:AGENT/NUMBER` in the keeper.
//! 2. The turn is read anew. A turn that has a summary is left alone.
//! 3. The call is counted and recorded durably (`summary_calls`), with its maker and its end. A
//!    turn gets three calls at most; after them it is closed without a summary.
//! 4. The command is called, with the text on its standard input, in a process group of its own. It
//!    has a minute, or the time that is set, counted from before 3. When that is over, or the
//!    command has ended, the rest of the group is killed. The command dies with this process, and
//!    on SQLite it inherits the lock.
//! 5. The summary is committed: on PostgreSQL in the transaction that holds the row. If that
//!    connection is lost, the summary is written without it once the server is back, if the time of
//!    the call is not over and no other program changed the turn meanwhile.
//! 6. The call is recorded as over, and the turn unlocked.
//!
//! | crash or race | what follows |
//! |---|---|
//! | two at once | the second finds the turn locked, or the call recorded, and skips it |
//! | killed after 3 | the call was counted. The kernel kills the command with this process |
//! | … on SQLite | the lock is free when nothing of the call is left, and then the next begins at once |
//! | … on PostgreSQL | the next begins when the recorded time is over |
//! | stopped in 4, for longer than it has | the lock (SQLite) or the row (PostgreSQL) stays held |
//! | the connection lost in 4 | the recorded call keeps others out; the command goes on, and its summary is kept |
//! | killed after 5 | the turn has its summary, and no call is made for it |
//!
//! # Limitations
//!
//! Processes that the command of a killed watcher has started are not killed. On PostgreSQL, where
//! nothing proves when they have ended, they may still run when the next call begins, if they take
//! longer than the command may. So may the command of a watcher that was stopped, or whose machine
//! slept, and that has also lost its connection.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use tenure::records::{
    Changes, Column, Expected, Record, RecordChange, RecordKey, RecordQuery, Seen,
};
use tenure::{Error, Guard, Keeper, Mode, Options, Resource, Result, Session, clock};
use tenure_core::internal::lock;
use tenure_os::platform::host_name;
use tenure_postgres::RecordRow;
use tenure_run::{CallLimits, call};
use tenure_work::agents::state::{TURN, Turn, read};
use tenure_work::agents::summary_calls::{self, Refused};
use tokio::time::sleep;

use crate::Service;

/// The default time limit of a command.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// The largest part of a summary that is kept, in bytes.
const SUMMARY_BYTES_MAX: u64 = 8 * 1024;
/// The pause between tries to write a summary to a server that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(500);
/// The largest number of turns that are read at once.
const TURNS_MAX: usize = 100;

/// Calls a command to summarise turns.
pub struct Summariser<'a> {
    pub service: &'a Service,
    pub keeper: &'a Keeper,
    /// A session that holds only the locks of turns: a command inherits them, and must keep nothing
    /// else locked.
    pub session: &'a Session,
    pub command: Vec<String>,
}

/// The summaries and failures since they were last reported.
#[derive(Default)]
pub struct Made {
    /// The number of turns that got a summary.
    pub summaries: usize,
    /// The failures, each in a sentence.
    pub warnings: Vec<String>,
}

impl Summariser<'_> {
    /// Summarises the turns that have no summary yet, and adds the outcome to `made`.
    pub async fn go_through(&self, made: &Mutex<Made>) -> Result<()> {
        let mut query = RecordQuery::new(TURN).with_column(Column::State("open".into()));
        query.limit = TURNS_MAX;
        let page = self.keeper.records("agents")?.list(&query).await?;
        for record in &page.records {
            let turn: Turn = read(record)?;
            let name = format!("{}/{}", turn.agent, turn.number);
            let held = match self.service.is_on_server() {
                true => None,
                false => match self.lock(&name).await? {
                    Some(lock) => Some(lock),
                    None => continue,
                },
            };
            let done = self.one(&record.key, held.as_ref()).await;
            if let Some(held) = held {
                drop(held.release().await);
            }
            let mut made = lock(made);
            match done {
                Ok(is_made) => made.summaries += usize::from(is_made),
                Err(error) => made.warnings.push(format!("turn {name}: {error}")),
            }
        }
        Ok(())
    }

    /// Takes the lock of a turn in the keeper, if it is free.
    async fn lock(&self, turn: &str) -> Result<Option<Guard>> {
        let resource = Resource::new("turn", turn);
        let resource = resource.map_err(|error| Error::Internal(error.to_string()))?;
        let options = Options::default();
        let lock = self.session.try_acquire(&resource, Mode::Write, &options);
        lock.await
    }

    /// Summarises one turn that is locked in the keeper, or else by its row. Returns true if it got
    /// a summary.
    async fn one(&self, key: &RecordKey, lock: Option<&Guard>) -> Result<bool> {
        let records = self.keeper.records("agents")?;
        let row = match lock {
            Some(_) => None,
            None => match RecordRow::lock(&self.service.located().url, key).await? {
                Some(row) => Some(row),
                None => return Ok(false),
            },
        };
        let Some(record) = records.read(key).await? else {
            return Ok(false);
        };
        let mut turn: Turn = read(&record)?;
        if turn.summary.is_some() {
            return Ok(false);
        }
        let time_max = self.service.located().config.agents.summary_max;
        let time_max = time_max.unwrap_or(COMMAND_MAX);
        let limits = CallLimits {
            end_ms: clock::boot_now() + u64::try_from(time_max.as_millis()).unwrap_or(u64::MAX / 2),
            time_max,
            bytes_max: SUMMARY_BYTES_MAX,
        };
        let inherited = lock.map(Guard::descriptor).transpose()?.flatten();
        // The lock is inherited: it was free, so the last call is over with all its processes.
        let is_alone = inherited.is_some();
        let by = format!(
            "{}, process {} on {}",
            self.session.owner(),
            std::process::id(),
            host_name()
        );
        let begun = summary_calls::begin(&records, key, &by, time_max, is_alone).await?;
        let recorded = match begun {
            Ok(recorded) => recorded,
            Err(Refused::GoesOn) => return Ok(false),
            Err(Refused::Enough) => {
                self.write(&record, row, &turn, limits).await?;
                return Ok(false);
            }
        };
        let called = self.summary_of(&turn.text, inherited, limits).await;
        let written = match &called {
            Ok(summary) => {
                turn.summary = Some(summary.clone());
                self.write(&record, row, &turn, limits).await
            }
            Err(_) => Ok(()),
        };
        recorded.end(&records).await?;
        written.and(called).map(|_| true)
    }

    /// Writes a turn that gets no more calls, unless another program has changed it. A server that
    /// is away is waited for, within the time of the call.
    async fn write(
        &self,
        read: &Record,
        row: Option<RecordRow>,
        turn: &Turn,
        limits: CallLimits,
    ) -> Result<()> {
        let body = serde_json::to_value(turn);
        let body = body.map_err(|error| Error::Internal(error.to_string()))?;
        let columns = turn.columns(true);
        if let Some(row) = row {
            let state = columns.state.clone().unwrap_or_default();
            // If the connection was lost, the version below shows whether this write took effect.
            if row.write(&state, &body).await.is_ok() {
                return Ok(());
            }
        }
        let put = |_: &Seen| {
            let mut changes = Changes::default();
            changes.put(read.key.clone(), columns.clone(), body.clone());
            Ok(changes)
        };
        let expected = Expected::Version(read.version);
        let change = RecordChange::new([], &put).expecting(read.key.clone(), expected);
        let records = self.keeper.records("agents")?;
        loop {
            match records.change(&change).await {
                Ok(_) | Err(Error::RecordChanged { .. }) => return Ok(()),
                Err(error) if error.is_passing() && clock::boot_now() < limits.end_ms => {
                    sleep(AWAY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the summary that the command prints for a text.
    async fn summary_of(
        &self,
        text: &str,
        inherited: Option<OwnedFd>,
        limits: CallLimits,
    ) -> Result<String> {
        let failed = |problem: &str| Error::BadInput(format!("the summary command {problem}"));
        let words = self.command.split_first();
        let (program, arguments) = words.ok_or_else(|| failed("is empty"))?;
        let mut command = Command::new(program);
        command.args(arguments);
        let printed = call(command, inherited.map(Ok), text, limits).await;
        let printed = printed.map_err(|error| failed(&error.to_string()))?;
        match String::from_utf8_lossy(&printed).trim() {
            "" => Err(failed("printed nothing")),
            summary => Ok(summary.to_owned()),
        }
    }
}
