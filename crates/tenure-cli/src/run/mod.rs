//! `tenure run`: takes locks, runs a command under them, releases them.
//!
//! # Invariants
//!
//! - From the first grant to the end of the command the locks are held by this process, and by the
//!   command too unless `--close` says otherwise: it never runs unprotected. Where leases run out
//!   by themselves the command cannot hold them: there it is killed with this process, and ended
//!   before the lock can be somebody else's.
//! - Signals are listened to before the first lock is asked for, so that none is lost between
//!   the grant and the start of the command.
//! - Whatever happens after the grant, the locks are released before this process ends.
//! - A slot is taken before all locks, and given back after them.

mod environment;
mod held;
mod slot;
mod taken;

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Duration;

use tenure::{
    AUTOMATED_WAIT_DEFAULT, Class, Error, Keeper, LockSet, Options, Owner, SessionOptions,
};
use tenure_run::{Ended, Held, Signals, Watchdog};
use tenure_work::policy::{Policy, Scope};

use crate::cli::{self, Global};
use crate::context::Context;
use crate::context::asked;
use crate::exit;
use crate::opening::open_unless_interrupted;
use crate::report::{Failure, Report};
use crate::runtime;
use crate::surface::outers;
use environment::CommandEnvironment;
use held::{RunLocks, release};
use taken::{RunRequest, Taken};
use tenure_service::Limit;
use tenure_service::around::{Ancestors, Outer, Outers, Plan};
use tenure_service::store_identity::is_server;

/// The default wait of `run`.
const WAIT_DEFAULT: Duration = Duration::from_secs(600);

/// Runs a command under locks.
pub fn run(global: &Global, options: cli::Run, report: Report) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    let owner = context.owner(options.owner.clone())?;
    let options = with_operation(&context, options, &owner)?;
    // Where leases run out. Elsewhere the command holds what it runs under.
    let watchdog = is_server(&context.located.url).then(Watchdog::start);
    let watchdog = watchdog.transpose()?;
    runtime::block_on(under_locks(&context, options, owner, watchdog, report))
}

/// Adds the locks of the operation to those that are named.
fn with_operation(
    context: &Context,
    mut options: cli::Run,
    owner: &Owner,
) -> Result<cli::Run, Failure> {
    let Some(name) = &options.op else {
        return Ok(options);
    };
    let policy = Policy::of(&context.located.config)?;
    let scope = Scope::new(std::mem::take(&mut options.with))?;
    let locks = policy.locks_of(name, &scope)?;
    let needs_person = policy.find(name)?.operation.needs_approval;
    if needs_person && context.automated().covers(owner) {
        return Err(Failure::Error(Error::not_allowed(
            format!("{owner} may not do {name}: it needs the approval of a person"),
            "ask a person to run it",
        )));
    }
    let wanted = locks.into_iter().map(|lock| tenure_api::text::Wanted {
        resource: lock.resource,
        mode: Some(lock.mode),
    });
    options.resources.extend(wanted);
    options.purpose = options.purpose.or_else(|| Some(name.clone()));
    Ok(options)
}

/// Returns how long `run` waits unless it is told otherwise.
fn default_wait(context: &Context, owner: &Owner) -> Duration {
    match context.automated().covers(owner) {
        true => AUTOMATED_WAIT_DEFAULT,
        false => WAIT_DEFAULT,
    }
}

/// The stores that are needed, open.
struct Stores {
    /// The store of the locks; `None` if only a slot is taken.
    locks: Option<Keeper>,
    /// The store of the slots.
    slots: Option<Keeper>,
}

impl Stores {
    async fn open(
        context: &Context,
        options: &cli::Run,
        outers: &Outers,
        limit: Limit,
        signals: &mut Signals,
    ) -> tenure::Result<Self> {
        let mut stores = Self {
            locks: None,
            slots: None,
        };
        if !options.resources.is_empty() || outers.has_locks() {
            let opening = context.keeper_within(WAIT_DEFAULT, limit);
            let first = options.resources.first().map(|wanted| &wanted.resource);
            stores.locks = Some(open_unless_interrupted(opening, first, signals).await?);
        }
        if options.slot.is_some() {
            stores.slots = Some(context.slots(WAIT_DEFAULT).await?);
        }
        Ok(stores)
    }
}

async fn under_locks(
    context: &Context,
    options: cli::Run,
    owner: Owner,
    watchdog: Option<Watchdog>,
    report: Report,
) -> Result<ExitCode, Failure> {
    let mut command = command(&options.command)?;
    let mut signals = Signals::listen()?;
    let outers = outers()?;
    let wait = asked(options.no_wait, options.wait);
    let default = default_wait(context, &owner);
    let (owner, limit) = context.owner_and_limit(Some(owner), wait, default, None)?;
    let asked_slot = options.slot.as_ref();
    let asked_slot = asked_slot.map(|slot| slot::slot_request(slot, context, &owner));
    let asked_slot = asked_slot.transpose()?;
    let stores = Stores::open(context, &options, &outers, limit, &mut signals).await?;
    let (locks, slots) = (stores.locks.as_ref(), stores.slots.as_ref());
    let ancestors = Ancestors::proved(outers, locks, slots).await?;
    let ranking = context.settings(WAIT_DEFAULT).ranking;
    let wanted = options.resources.iter();
    let wanted = wanted.map(|w| (w.resource.clone(), w.mode.unwrap_or(options.mode())));
    let wanted = LockSet::new(&ranking, wanted);
    let (slot, locks) = acquire(
        limit,
        &options,
        (&owner, context.shown_command(&options.command)),
        &stores,
        (asked_slot.as_ref(), &wanted),
        &ancestors,
        &mut signals,
    )
    .await?;
    command.envs(environment::of_command(&CommandEnvironment {
        store: context.for_command(stores.locks.as_ref()),
        owner: &owner,
        slot: &slot,
        locks: &locks,
        wanted: &wanted,
        ancestors: &ancestors,
    }));
    // In the order they were acquired.
    let mut guards = slot.guards;
    guards.extend(locks.guards);
    let held = RunLocks {
        guards,
        sessions: [slot.session, locks.session],
        close: options.close,
    };
    let ended = run_under(command, held, watchdog, &mut signals, report).await?;
    Ok(exit_code(ended, report))
}

/// Returns the command that the user wants to be run.
pub fn command(words: &[OsString]) -> tenure::Result<Command> {
    let [program, arguments @ ..] = words else {
        return Err(Error::BadInput("there is no command to run".into()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Runs a command under something held, and reports at once if that is lost meanwhile.
pub async fn run_under(
    command: Command,
    held: impl Held,
    watchdog: Option<Watchdog>,
    signals: &mut Signals,
    report: Report,
) -> Result<Ended, Failure> {
    let on_loss = |error| report.late_failure(&Failure::Error(error));
    Ok(tenure_run::run(command, held, watchdog, signals, on_loss).await?)
}

/// Returns the exit code of a command that ended. Ends this process as the command ended, if that
/// was by the keyboard.
pub fn exit_code(ended: Ended, report: Report) -> ExitCode {
    if ended.is_lost {
        return ExitCode::from(exit::LOST);
    }
    if let Err(error) = ended.released {
        report.late_failure(&Failure::Error(error));
        return ExitCode::from(exit::LOST);
    }
    if let Some(signal) = ended.keyboard {
        signal.repeat();
    }
    ExitCode::from(exit::of_command(ended.status))
}

/// Takes the slot and then the locks, within one time limit; all or nothing.
async fn acquire(
    limit: Limit,
    options: &cli::Run,
    (owner, command): (&Owner, String),
    stores: &Stores,
    (asked_slot, wanted): (Option<&slot::SlotRequest>, &LockSet),
    ancestors: &Ancestors,
    signals: &mut Signals,
) -> Result<(Taken, Taken), Failure> {
    let busy_exit = options.busy_exit;
    let mut asked = Options::default().with_wait(limit.left());
    asked.purpose = options.purpose.clone();
    asked.metadata = options.meta.clone();
    let mut request = RunRequest {
        owner: owner.clone(),
        command,
        whole: limit.whole(),
        options: asked,
    };
    let mut slot = Taken::default();
    if let (Some(wanted), Some(keeper)) = (asked_slot, &stores.slots) {
        let taken = slot::acquire(wanted, keeper, ancestors, &request, signals);
        slot = taken
            .await
            .map_err(|error| slot::failure(limit.whole_in(error), wanted, busy_exit))?;
        request.options.wait = Some(limit.left());
    }
    let Some(keeper) = stores.locks.as_ref().filter(|_| !wanted.is_empty()) else {
        return Ok((slot, Taken::default()));
    };
    match acquire_locks(keeper, wanted, options, ancestors, &request, signals).await {
        Ok(locks) => Ok((slot, locks)),
        Err(error) => {
            drop(release(slot.guards).await);
            Err(not_started(limit.whole_in(error), busy_exit))
        }
    }
}

/// The failure to take what the command is to run under. What is busy has the exit code that the
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

/// Takes what is missing of the locks.
async fn acquire_locks(
    keeper: &Keeper,
    wanted: &LockSet,
    options: &cli::Run,
    ancestors: &Ancestors,
    request: &RunRequest,
    signals: &mut Signals,
) -> tenure::Result<Taken> {
    let plan = match options.reuse {
        true => ancestors.reuse(wanted, keeper)?,
        false => Plan::take_all(wanted.clone()),
    };
    let session = SessionOptions::new(request.owner.clone())
        .with_command(&request.command)
        .with_ancestors(ancestors.held());
    let session = keeper.session(session);
    let (session, options) = (session.await?, &request.options);
    let taken = taken::acquire(session, &plan.missing, options, request.whole, signals);
    let mut taken = taken.await?;
    let store = keeper.store().url();
    let reused = plan.reused.into_iter().map(|lease| Outer {
        lease,
        store: store.to_owned(),
    });
    taken.under = reused.collect();
    Ok(taken)
}
