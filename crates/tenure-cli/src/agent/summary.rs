//! Summaries of turns, by a command from the settings.
//!
//! # Steps
//!
//! 1. The lock `turn:AGENT/NUMBER` of the keeper is taken, or the turn is skipped. On PostgreSQL its row is locked besides, by `FOR UPDATE
//!    NOWAIT`, so that other programs that summarise meet here.
//! 2. The turn is read anew. One that has a summary is left alone.
//! 3. The command is called, with the text on its standard input, in a process group of its own. It has a minute, or what is set; what is left
//!    of the group then, or when the command has ended, is killed.
//! 4. The summary is committed inside the locks: on PostgreSQL in the transaction that holds the row.
//!
//! A crash in 3 leaves no summary, and frees the locks. So there are never two calls for one turn at the same time, and none for
//! a turn that has a summary. A command that fails three times for a turn is not called again for it.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tenure::records::{Changes, Column, Expected, RecordChange, RecordKey, RecordQuery, Seen};
use tenure::{Error, Keeper, Mode, Options, Resource, Result, Session};
use tenure_postgres::RecordRow;
use tenure_work::agents::state::{TURN, Turn, read, turn_key};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::context::Context;
use crate::identity::is_server;

/// The default time limit of a command.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// The interval of checks whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the output of a command that has ended is waited for, if something outside of its process group has it open.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);
/// More of a summary is not kept, in bytes.
const SUMMARY_BYTES_MAX: u64 = 8 * 1024;
/// After so many failures a turn is left without a summary.
const FAILURES_MAX: u32 = 3;
/// The number of turns that are summarised together.
const TURNS_MAX: usize = 100;

/// Summarises turns that have no summary. Returns how many got one, and what went wrong.
pub async fn summarise(
    context: &Context,
    keeper: &Keeper,
    session: &Session,
    command: &[String],
) -> Result<(usize, Vec<String>)> {
    let mut query = RecordQuery::new(TURN).with_column(Column::State("open".into()));
    query.limit = TURNS_MAX;
    let page = keeper.records("agents")?.list(&query).await?;
    let (mut made, mut warnings) = (0, Vec::new());
    for record in &page.records {
        let turn: Turn = read(record)?;
        let key = turn_key(turn.agent, turn.number)?;
        let name = format!("{}/{}", turn.agent, turn.number);
        let resource = Resource::new("turn", &name);
        let resource = resource.map_err(|error| Error::Internal(error.to_string()))?;
        let options = Options::default();
        let lock = session.try_acquire(&resource, Mode::Write, &options);
        let Some(guard) = lock.await? else { continue };
        let done = one(context, keeper, &key, command).await;
        drop(guard.release().await);
        match done {
            Ok(is_made) => made += usize::from(is_made),
            Err(error) => warnings.push(format!("turn {name}: {error}")),
        }
    }
    Ok((made, warnings))
}

/// Summarises one turn whose lock is held. Returns true if it got a summary.
async fn one(
    context: &Context,
    keeper: &Keeper,
    key: &RecordKey,
    command: &[String],
) -> Result<bool> {
    let records = keeper.records("agents")?;
    let url = &context.located.url;
    let row = match is_server(url) {
        true => match RecordRow::lock(url, key).await? {
            Some(row) => Some(row),
            None => return Ok(false),
        },
        false => None,
    };
    let Some(record) = records.read(key).await? else {
        return Ok(false);
    };
    let mut turn: Turn = read(&record)?;
    if turn.summary.is_some() {
        return Ok(false);
    }
    // The lock is renewed meanwhile.
    let most = context.located.config.agents.summary_max;
    let called = call(command, &turn.text, most.unwrap_or(COMMAND_MAX)).await;
    match &called {
        Ok(summary) => turn.summary = Some(summary.clone()),
        Err(_) => turn.summary_failures += 1,
    }
    let body = serde_json::to_value(&turn).map_err(|error| Error::Internal(error.to_string()))?;
    let is_given_up = turn.summary_failures >= FAILURES_MAX;
    let columns = turn.columns(is_given_up);
    match row {
        Some(row) => {
            let state = columns.state.unwrap_or_default();
            row.write(&state, &body).await?;
        }
        None => {
            let put = |_: &Seen| {
                let mut changes = Changes::default();
                changes.put(key.clone(), columns.clone(), body.clone());
                Ok(changes)
            };
            let expected = Expected::Version(record.version);
            let change = RecordChange::new([], &put).expecting(key.clone(), expected);
            records.change(&change).await?;
        }
    }
    called.map(|_| true)
}

/// The command while it runs. Dropped, it is killed with all that it has started.
struct Running {
    child: Child,
    group: Pid,
}

impl Running {
    fn kill(&self) {
        // It is gone if it has ended.
        let _ = kill_process_group(self.group, Signal::KILL);
    }

    /// Returns true if the command has ended. It is not reaped, so that its number is nobody else's.
    fn has_ended(&self) -> Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(self.group), options);
        ended
            .map(|ended| ended.is_some())
            .map_err(|error| failed(&error.to_string()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

fn failed(problem: &str) -> Error {
    Error::BadInput(format!("the summary command {problem}"))
}

/// Calls the command, with a text on its standard input. Returns what it printed.
async fn call(command: &[String], text: &str, most: Duration) -> Result<String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(failed("is empty"));
    };
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child =
        spawned.map_err(|error| failed(&format!("{program:?} cannot be run: {error}")))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut running = Running {
        group: Pid::from_child(&child),
        child,
    };
    let text = text.to_owned();
    // Both pipes may be full, so neither waits for the other. A command that reads nothing closes its own.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(text.as_bytes())));
    let (printed, mut reading) = oneshot::channel();
    std::thread::spawn(move || {
        let mut summary = Vec::new();
        if let Some(mut stdout) = stdout {
            let _ = (&mut stdout)
                .take(SUMMARY_BYTES_MAX)
                .read_to_end(&mut summary);
            // A command that prints more than is kept still ends well.
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        }
        let _ = printed.send(summary);
    });
    let deadline = Instant::now() + most;
    let late = || {
        let most = tenure::duration::show(most);
        failed(&format!("took longer than {most}, and was ended"))
    };
    while !running.has_ended()? {
        if Instant::now() >= deadline {
            return Err(late());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // What it has left in the background has its output open.
    running.kill();
    let status = running.child.wait();
    let status = status.map_err(|error| failed(&error.to_string()))?;
    if !status.success() {
        return Err(failed(&format!("failed: {status}")));
    }
    let summary = timeout(OUTPUT_WAIT, &mut reading).await;
    let summary = summary.map_err(|_| late())?.unwrap_or_default();
    match String::from_utf8_lossy(&summary).trim() {
        "" => Err(failed("printed nothing")),
        summary => Ok(summary.to_owned()),
    }
}
