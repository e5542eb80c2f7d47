//! `tenure lock`: takes locks that outlive this command.

use std::process::ExitCode;

use serde_json::json;
use tenure::{Error, Keeper, Lease, LeaseTerms, LockSet, Options, SessionOptions};
use tenure_run::Signals;

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT, owner};
use crate::limit::{self, Limit};
use crate::nesting::{self, Ancestors};
use crate::opening::open_unless_interrupted;
use crate::report::Failure;
use crate::waiting::{Wait, wait};
use crate::{output, runtime};

/// `{"leases":[…]}`.
/// Takes the locks and prints their leases, in the order they were taken.
pub fn lock(global: &Global, options: cli::Lock) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let wait = limit::asked(options.no_wait, options.wait);
        let ttl = Some(options.ttl.unwrap_or(tenure::TTL_DEFAULT));
        let asked = options.owner.clone();
        let (_, limit) = context.owner_and_limit(asked, wait, WAIT_DEFAULT, ttl)?;
        let opening = context.keeper_within(WAIT_DEFAULT, limit);
        let first = options.resources.first().map(|wanted| &wanted.resource);
        let keeper = open_unless_interrupted(opening, first, &mut signals).await?;
        let leases = acquire(&keeper, context.own_command(), options, limit, &mut signals).await?;
        let printed = match global.json {
            true => output::json(&json!({ "leases": leases })),
            false => {
                let ids = leases.iter().map(|lease| format!("{}\n", lease.lease));
                output::text(&ids.collect::<String>())
            }
        };
        if let Err(failure) = printed {
            // Nobody knows of them, so nobody could release them.
            for lease in leases.iter().rev() {
                drop(keeper.release(&lease.lease, None).await);
            }
            return Err(failure);
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn acquire(
    keeper: &Keeper,
    command: String,
    options: cli::Lock,
    limit: Limit,
    signals: &mut Signals,
) -> Result<Vec<Lease>, Failure> {
    let ancestors = Ancestors::proved(nesting::outers()?, Some(keeper), None).await?;
    let session = SessionOptions::new(owner(options.owner)?)
        .with_command(command)
        .with_ancestors(ancestors.held());
    let session = keeper.session(session).await?;
    let wanted = options.resources.into_iter();
    let wanted = wanted.map(|wanted| (wanted.resource, wanted.mode.unwrap_or(options.mode)));
    let set = LockSet::new(&keeper.settings().ranking, wanted);
    let mut terms = LeaseTerms::default();
    terms.ttl = options.ttl.unwrap_or(terms.ttl);
    terms.key = options.key;
    let left = limit.left();
    let mut asked = Options::default().with_wait(left);
    asked.purpose = options.purpose;
    asked.metadata = options.meta;
    let about = Wait {
        session: &session,
        set: &set,
        limit: limit.whole(),
        slots: None,
        own: None,
    };
    let asking = keeper.lock(&session, &set, &terms, &asked);
    let taken = wait(asking, about, signals).await;
    taken.map_err(|error| failure(limit.whole_in(error)))
}

/// The only state that taking a lock conflicts with is that of its key.
fn failure(error: Error) -> Failure {
    match error {
        Error::Conflict { .. } => Failure::with_remedy(error, "use another key"),
        error => error.into(),
    }
}
