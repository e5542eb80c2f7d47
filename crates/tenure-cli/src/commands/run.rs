//! `tenure run`: takes locks, runs a command under them, releases them.
//!
//! # Invariants
//!
//! - From the first grant to the end of the command this process holds the locks, and the command
//!   holds them too unless `--close` says otherwise: the command never runs unprotected. Leases
//!   that run out by themselves cannot be held by the command. With such leases it is killed
//!   together with this process, and ended before another owner can get the lock.
//! - This process listens to signals before it asks for the first lock, so that none is lost
//!   between the grant and the start of the command.
//! - After the grant, the locks are released in every case before this process ends.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenure::{Class, Error, Lease, Mode, Owner, Resource};
use tenure_api::op::Scope;
use tenure_api::text::Wanted;
use tenure_run::{Signals, Watchdog};
use tenure_service::Caller;
use tenure_service::run::{self, NotHeld, UnderLocks};

use super::supervise::{command, exit_code, run_under};
use crate::cli::Global;
use crate::cli::values::{
    Slot, bytes, parse_meta, parse_mode, parse_purpose, parse_ttl, parse_wait, parse_wanted,
    parse_with,
};
use crate::report::{Failure, Report};
use crate::surface::{Surface, asked_wait, cancelled_by_signals};

#[derive(Debug, Args)]
pub struct Run {
    /// How resources without =MODE are locked: read, write or upgradeable
    #[arg(long, value_name = "MODE", default_value = "write", value_parser = parse_mode(), hide_possible_values = true)]
    pub mode: Mode,
    /// Lock for reading, beside other readers: --mode read
    #[arg(short, long, conflicts_with = "mode")]
    pub shared: bool,
    /// Lock for writing, alone: --mode write, which is the default
    #[arg(short = 'x', long, conflicts_with_all = ["mode", "shared"])]
    pub exclusive: bool,
    /// How long to wait, such as 500ms, 30s, 5m or 1h, at most 8760h (default: 10m; agents and
    /// jobs: 90s)
    #[arg(short, long, value_name = "DURATION", value_parser = parse_wait, conflicts_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait: exit 75 at once if it is held
    #[arg(short, long)]
    pub no_wait: bool,
    /// On whose behalf (default: TENURE_OWNER, else user@host)
    #[arg(long)]
    pub owner: Option<Owner>,
    /// Why, for people who look
    #[arg(long, value_parser = parse_purpose)]
    pub purpose: Option<String>,
    /// Kept with the lease, as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_meta)]
    pub meta: Option<Value>,
    /// At most N at a time for all who use the store, on any machine; taken before the slot
    #[arg(long, value_name = "NAME[=N|:N]", value_parser = bytes(Slot::parse_pool))]
    pub pool: Option<Slot>,
    /// At most N at a time on this machine, counted for this user; taken before the locks
    #[arg(long, value_name = "NAME[:N]", value_parser = bytes(Slot::parse))]
    pub slot: Option<Slot>,
    /// Take the locks that an operation needs, as `tenure op show` says
    #[arg(long, value_name = "OPERATION")]
    pub op: Option<String>,
    /// What the operation is about, such as project=atlas; several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_with, requires = "op")]
    pub with: Vec<(String, String)>,
    /// Keep other runs out for at least this long from the start, such as 5m, however soon the
    /// command ends: 1s to 24h
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, conflicts_with = "reuse")]
    pub at_least: Option<Duration>,
    /// Where an outer run holds the lock already, run under it instead of failing
    #[arg(long)]
    pub reuse: bool,
    /// Do not pass the lock's descriptor on. If run is killed, so is the command itself, but
    /// not the processes it started in turn
    #[arg(short = 'o', long)]
    pub close: bool,
    /// The exit code for busy or timed out
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::BUSY)]
    pub busy_exit: u8,
    /// What to lock
    #[arg(required_unless_present_any = ["pool", "slot", "op"], value_name = "RESOURCE[=MODE]", value_parser = bytes(parse_wanted))]
    pub resources: Vec<Wanted>,
    /// The command to run, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl Run {
    /// Returns the mode of resources without a mode of their own.
    pub fn mode(&self) -> Mode {
        if self.shared { Mode::Read } else { self.mode }
    }
}

/// Shown after the options.
pub const HELP: &str = "\
Examples:
  tenure run build -- cargo build
  tenure run --wait 30s --purpose nightly deploy -- ./deploy.sh
  tenure run --no-wait -E 0 sync -- ./sync        done if it runs already
  tenure run project:atlas=read map:atlas/m3 -- ./draw
  tenure run --reuse build -- make                inside another run of `build`
  tenure run --slot test:2 -- cargo test          two at a time on this machine
  tenure run --slot test:2 db -- cargo test       a slot first, then a lock
  tenure run --pool deploy:3 -- ./deploy.sh       three at a time, everywhere
  tenure run --op map.calibrate --with project=atlas --with map=m3 -- ./job.sh
  tenure run --at-least 5m nightly -- ./report.sh      cron on several machines

A resource is kind:id, such as map:atlas/m3; a bare name such as build means
name:build. Several are taken in one global order, all or nothing. =MODE (read,
write, upgradeable) is cut at the last `=` only if a mode follows.

A slot is one of N places, counted for this user on this machine, whatever the
store. Each caller says its own N, and has a place while fewer than N are taken.
A slot is taken before all locks; inside a lock it is refused. Inside a run that
has the same slot, it is shared with that. `tenure ls slot` shows who has them.

A pool is a slot that is counted in the store, for all who use it on any
machine; file: cannot count. It is taken before the slot.
`tenure ls pool:` shows who has the places.

--op takes exactly the locks that the operation needs; tenure op show says which
and why.

--at-least keeps every other run of the same resources out until its time is
over, even if this run is killed or the machine goes down: by a lease on
hold:RESOURCE in the mode of the lock, which is not renewed and ends by its time
(not before stale_grace, if that is longer), by tenure break or by release. A
command that cannot be started gives it back. tenure lock does not ask for it.
file: cannot do it (78). Agents and jobs: automated_ttl_max at most.

The command gets TENURE_STORE, TENURE_SESSION, TENURE_OWNER, TENURE_RESOURCE,
TENURE_LEASE, TENURE_TOKEN (comma-separated) and TENURE_LEASES (JSON).
SIGINT, SIGTERM, SIGHUP and SIGQUIT go to its process group. When it ends, the
locks are released, whatever it left running. If `run` itself is killed, the
locks stay until the command ends. If a person breaks the lock, the command
gets SIGTERM, and SIGKILL five seconds later; if that happens before it was
started, it never is.

On postgres:// a lock is a lease of 30s (?lease_ttl=D in the URL), renewed while
the command runs. If `run` is killed, so is the command, but not the processes
it started in turn. If the lease cannot be renewed, the command gets SIGTERM
when two thirds of it are used up and SIGKILL at five sixths: before anybody
else can have the lock. The password in the URL is passed on to the command in
TENURE_STORE, and shown nowhere.

Exit codes: those of the command (128 + signal; 126 not executable, 127 not
found); 65 something of the operation is missing; 69 the store cannot be
reached; 75 busy or timed out (see -E); 76 asked for in the wrong order, or
held by an outer run already; 78 bad configuration; 79 the lock was lost, or
broken by a person: the command was stopped, or never started; 130 interrupted
while waiting.";

/// Runs a command under locks.
pub fn run(global: &Global, options: Run, report: Report) -> Result<ExitCode, Failure> {
    let surface = Surface::open(global)?;
    let caller = surface.caller_within(options.owner.clone())?;
    let (mut command, busy_exit) = (command(&options.command)?, options.busy_exit);
    let request = request(options, &surface)?;
    // The watchdog is needed where leases run out. In other stores the command holds its locks
    // itself.
    let watchdog = surface.service.is_on_server().then(Watchdog::start);
    let watchdog = watchdog.transpose()?;
    surface.block_on(async {
        let mut signals = Signals::listen()?;
        let holding = Box::pin(surface.service.hold_for_run(request, &caller));
        let under = cancelled_by_signals(holding, &caller, &mut signals).await;
        let under = under.map_err(|not_held| failure(not_held, busy_exit))?;
        command.envs(environment(&under, &caller));
        let running = run_under(command, under.held, watchdog, &mut signals, report);
        let ended = Box::pin(running).await?;
        Ok(exit_code(ended, report))
    })
}

fn request(options: Run, surface: &Surface) -> Result<run::Run, Failure> {
    let mode = options.mode();
    let scope = Scope::new(options.with)?;
    Ok(run::Run {
        command: surface.shown_command(&options.command),
        resources: options.resources,
        mode,
        pool: options.pool,
        slot: options.slot,
        operation: options.op.map(|name| (name, scope)),
        wait: asked_wait(options.no_wait, options.wait).map(|wait| wait.0),
        at_least: options.at_least,
        reuse: options.reuse,
        close: options.close,
        purpose: options.purpose,
        metadata: options.meta,
    })
}

/// Returns the variables for the command. Resources, leases and tokens stand in one order.
fn environment(under: &UnderLocks, caller: &Caller) -> Vec<(&'static str, OsString)> {
    let list = |field: &dyn Fn(&Lease) -> String| {
        let fields: Vec<String> = under.leases.iter().map(field).collect();
        fields.join(",").into()
    };
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("TENURE_STORE", under.store.as_str().into()),
        ("TENURE_OWNER", caller.owner().as_str().into()),
        ("TENURE_RESOURCE", list(&|lease| lease.resource.to_string())),
        ("TENURE_LEASE", list(&|lease| lease.lease.to_string())),
        ("TENURE_TOKEN", list(&|lease| lease.token.to_string())),
        ("TENURE_LEASES", under.passed_on.to_json().into()),
    ];
    // If no lock was taken here, the session of the outer run stays.
    let session = under.session.as_ref();
    variables.extend(session.map(|session| ("TENURE_SESSION", session.as_str().into())));
    variables
}

fn failure(not_held: NotHeld, busy_exit: u8) -> Failure {
    match not_held {
        NotHeld::Places { error, slot } if error.class() == Class::NotAllowed => {
            Failure::with_remedy(
                error,
                format!("use: tenure run --{} {} -- CMD", slot.kind(), slot.id()),
            )
        }
        NotHeld::Refused(error) | NotHeld::Places { error, .. } => error.into(),
        NotHeld::Slot {
            error,
            slot,
            capacity,
        } => no_place(error, &slot, capacity, busy_exit),
        NotHeld::Locks(error) => not_started(error, busy_exit),
    }
}

/// Returns the failure to take the locks for the command. A busy lock has the exit code that the
/// user wants for it.
fn not_started(error: Error, busy_exit: u8) -> Failure {
    let (code, remedy) = match error.class() {
        Class::Busy => (Some(busy_exit), None),
        Class::Lost => (
            None,
            Some("the command was never started; see why, then start it again".into()),
        ),
        _ => (None, None),
    };
    Failure::Adjusted {
        error,
        code,
        remedy,
    }
}

/// Returns the failure to take a place in a slot or a pool. Its remedy is its own: `tenure ls` does
/// not show the slot without being asked, and neither is ever acquired in a set.
fn no_place(error: Error, slot: &Resource, capacity: u32, busy_exit: u8) -> Failure {
    let (code, remedy) = match &error {
        Error::Busy { .. } => {
            let remedy = format!("wait for it with --wait, or look with: tenure ls {slot}");
            (Some(busy_exit), remedy)
        }
        Error::Timeout { .. } => {
            let remedy = format!("wait longer with --wait, or look with: tenure ls {slot}");
            (Some(busy_exit), remedy)
        }
        Error::Order { held, .. } => {
            let (kind, id) = (slot.kind(), slot.id());
            let together = if held.kind() == kind {
                ""
            } else {
                ", or both in one run"
            };
            let remedy = format!(
                "take the {kind} first: tenure run --{kind} {id}:{capacity} … -- CMD around the \
                 run that holds {held}{together}"
            );
            (None, remedy)
        }
        _ => return not_started(error, busy_exit),
    };
    Failure::Adjusted {
        error,
        code,
        remedy: Some(remedy.into()),
    }
}
