//! Summaries of turns, by a command from the settings.
//!
//! # Steps
//!
//! 1. The lock `turn:AGENT/NUMBER` of the keeper is taken, or the turn is skipped. On PostgreSQL its row is locked besides, by `FOR UPDATE
//!    NOWAIT`, so that other programs that summarise meet here.
//! 2. The turn is read anew. One that has a summary is left alone.
//! 3. The command is called, with the text on its standard input. It has a minute, or what is set.
//! 4. The summary is committed inside the locks: on PostgreSQL in the transaction that holds the row.
//!
//! A crash in 3 leaves no summary, and frees the locks. So there are never two calls for one turn at the same time, and none for
//! a turn that has a summary. A command that fails three times for a turn is not called again for it.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tenure::records::{Changes, Column, Expected, RecordChange, RecordKey, RecordQuery, Seen};
use tenure::{Error, Keeper, Mode, Options, Resource, Result, Session};
use tenure_postgres::RecordRow;
use tenure_work::agents::state::{TURN, Turn, read, turn_key};

use crate::context::Context;
use crate::identity::is_server;

/// The default time limit of a command.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// The interval of checks whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
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
    let (command, text) = (command.to_vec(), turn.text.clone());
    // The lock is renewed meanwhile.
    let most = context.located.config.agents.summary_max;
    let most = most.unwrap_or(COMMAND_MAX);
    let called = tokio::task::spawn_blocking(move || call(&command, &text, most));
    let died = |_| Error::Internal("the thread that summarises died".into());
    let called = called.await.map_err(died)?;
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

/// Calls the command, with a text on its standard input. Returns what it printed.
fn call(command: &[String], text: &str, most: Duration) -> Result<String> {
    let failed = |problem: String| Error::BadInput(format!("the summary command {problem}"));
    let Some((program, arguments)) = command.split_first() else {
        return Err(failed("is empty".into()));
    };
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child =
        spawned.map_err(|error| failed(format!("{program:?} cannot be run: {error}")))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let text = text.to_owned();
    // Both pipes may be full, so neither waits for the other. A command that reads nothing closes its own.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(text.as_bytes())));
    let reading = std::thread::spawn(move || {
        let mut summary = Vec::new();
        if let Some(stdout) = stdout {
            let _ = stdout.take(SUMMARY_BYTES_MAX).read_to_end(&mut summary);
        }
        summary
    });
    let deadline = Instant::now() + most;
    let status = loop {
        let ended = child
            .try_wait()
            .map_err(|error| failed(error.to_string()))?;
        match ended {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                let most = tenure::duration::show(most);
                return Err(failed(format!("took longer than {most}, and was ended")));
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    if !status.success() {
        return Err(failed(format!("failed: {status}")));
    }
    let summary = reading.join().unwrap_or_default();
    match String::from_utf8_lossy(&summary).trim() {
        "" => Err(failed("printed nothing".into())),
        summary => Ok(summary.to_owned()),
    }
}
