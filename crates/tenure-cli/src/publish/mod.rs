//! `tenure publish`: puts a directory in place whole.
//!
//! | file | what it does |
//! |---|---|
//! | here | the lease, the publish under it, its release, and then the removal of what was there before |
//! | `look` | `--verify` and `--history` |
//! | `progress` | a line for who watches |
//!
//! The steps, and what a crash leaves, are in `tenure_work::publish`.

mod look;
mod progress;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use tenure::records::Fence;
use tenure::{Error, Guard, Keeper, Lease, LockSet, Mode, Options, Resource, SessionOptions};
use tenure_core::poison::lock;
use tenure_files::publish::PublishTarget;
use tenure_run::Signals;
use tenure_work::publish::{self, Manifest, Progress, Request, new_id};

use crate::cli::{self, Global};
use crate::context::{Context, WAIT_DEFAULT};
use crate::opening::open_unless_interrupted;
use crate::output::word;
use crate::people::counted;
use crate::report::Failure;
use crate::surface::outers;
use crate::waiting::{Wait, wait};
use crate::{output, runtime};
use tenure_service::Limit;
use tenure_service::around::Ancestors;

/// The number of files that a message names.
const NAMED_MAX: usize = 5;

/// `{"manifests":[…],"next":null}`.
#[derive(Serialize)]
struct Manifests {
    manifests: Vec<Manifest>,
    next: Option<String>,
}

impl Manifests {
    fn new(manifests: Vec<Manifest>) -> Self {
        Self {
            manifests,
            next: None,
        }
    }
}

/// Publishes, or looks at what was published.
pub fn publish(global: &Global, options: &cli::Publish) -> Result<ExitCode, Failure> {
    let context = Context::new(global)?;
    if let Some(target) = &options.verify {
        return look::verify(global, &context, target);
    }
    if let Some(target) = &options.history {
        return look::history(global, &context, target);
    }
    let (Some(source), Some(target)) = (&options.source, &options.target) else {
        return Err(Failure::usage(
            "SRC and TARGET are missing",
            "see tenure publish --help",
        ));
    };
    // On several threads: the lease is renewed while files are copied.
    runtime::block_on_threads(publish_whole(global, &context, options, source, target))
}

/// Tells which files lost setuid or setgid.
fn tell_unprivileged(progress: &Progress) {
    let unprivileged = lock(&progress.unprivileged);
    let named = unprivileged.iter().take(NAMED_MAX);
    let named: Vec<_> = named.map(|path| path.display().to_string()).collect();
    if named.is_empty() {
        return;
    }
    let more = match unprivileged.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    word(&format!(
        "setuid and setgid were dropped, as the copy has another owner: {}{more}",
        named.join(", ")
    ));
}

async fn publish_whole(
    global: &Global,
    context: &Context,
    options: &cli::Publish,
    source: &Path,
    target: &Path,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    let id = new_id();
    let publish_target = PublishTarget::new(target, &id).map_err(about)?;
    publish::check(&context.located.url, source, &publish_target).map_err(about)?;
    let (owner, limit) = context.owner_and_limit(None, options.wait, WAIT_DEFAULT, None)?;
    let resource = match &options.resource {
        Some(resource) => resource.clone(),
        None => resource_of(&publish_target)?,
    };
    let opening = context.keeper_within(WAIT_DEFAULT, limit);
    let keeper = open_unless_interrupted(opening, Some(&resource), &mut signals).await?;
    keeper.records("publish")?;
    let session = SessionOptions::new(owner.clone()).with_command(context.own_command());
    let asker = session.asker();
    let held = acquire(&keeper, session, &resource, options, limit, &mut signals).await?;
    let lease = held.lease();
    let request = Request {
        source: source.to_owned(),
        publish_target: &publish_target,
        id,
        op_type: options.op_type.clone(),
        fence: Fence {
            resource: lease.resource,
            token: lease.token,
            lease: Some(lease.lease),
        },
        asker,
        wait: limit.left(),
    };
    let progress = Arc::new(Progress::default());
    let watching = progress::watch(&progress, signals);
    let published = publish::publish(&keeper, &request, &progress).await;
    watching.end();
    held.release().await;
    let manifest = published.map_err(about)?;
    // Nobody waits for this any more. What cannot be removed now is removed by tenure recover.
    if let Err(error) = publish::remove_leftover(&keeper, &manifest, &owner).await {
        word(&format!(
            "what was there before is left in {}: {error}",
            manifest.tmp
        ));
    }
    tell_unprivileged(&progress);
    let shown = format!(
        "published {} to {}\n",
        counted(manifest.files.len(), "file"),
        manifest.target
    );
    let answer = Manifests::new(vec![manifest]);
    output::answer(global.json, &answer, || output::text(&shown))
}

/// Says what to do if a directory is missing, or if another publisher is at work.
fn about(error: Error) -> Failure {
    match error {
        Error::NotFound(_) => Failure::with_remedy(error, "make it, or name another one"),
        Error::Busy { .. } => Failure::with_remedy(
            error,
            "publish again when that is over; look with: tenure ls",
        ),
        error => Failure::Error(error),
    }
}

fn resource_of(publish_target: &PublishTarget) -> tenure::Result<Resource> {
    use std::os::unix::ffi::OsStrExt;
    let path = publish_target.target().as_os_str().as_bytes();
    Resource::new("file", path).map_err(|error| Error::BadInput(error.to_string()))
}

/// The lease that a publish works under: its own, or that of a run around it.
enum PublishLease {
    Own(Box<Guard>),
    Outer(Box<Lease>),
}

impl PublishLease {
    fn lease(&self) -> Lease {
        match self {
            PublishLease::Own(guard) => guard.lease(),
            PublishLease::Outer(lease) => (**lease).clone(),
        }
    }

    async fn release(self) {
        if let PublishLease::Own(guard) = self
            && let Err(failed) = guard.release().await
        {
            word(&failed.to_string());
        }
    }
}

async fn acquire(
    keeper: &Keeper,
    session: SessionOptions,
    resource: &Resource,
    options: &cli::Publish,
    limit: Limit,
    signals: &mut Signals,
) -> Result<PublishLease, Failure> {
    let ancestors = Ancestors::proved(outers()?, Some(keeper), None).await?;
    let wanted = LockSet::new(
        &keeper.settings().ranking,
        [(resource.clone(), Mode::Write)],
    );
    let mut plan = ancestors.reuse(&wanted, keeper)?;
    if let Some(lease) = plan.reused.pop() {
        return Ok(PublishLease::Outer(Box::new(lease)));
    }
    let session = keeper
        .session(session.with_ancestors(ancestors.held()))
        .await?;
    let asked = Options::default()
        .with_wait(limit.left())
        .with_purpose(options.op_type.clone());
    let about = Wait {
        session: &session,
        set: &wanted,
        limit: limit.whole(),
        slots: None,
        own: None,
    };
    let guard = wait(
        session.acquire(resource, Mode::Write, &asked),
        about,
        signals,
    )
    .await;
    let guard = guard.map_err(|error| limit.whole_in(error))?;
    Ok(PublishLease::Own(Box::new(guard)))
}
