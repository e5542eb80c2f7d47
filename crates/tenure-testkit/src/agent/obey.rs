//! The agent's side: it obeys commands until there are no more.
//!
//! Commands that may wait run as tasks, so that others can follow meanwhile and any of them can be
//! dropped half-way.

use std::collections::HashMap;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{
    Guard, Keeper, LockSet, Mode, Options, Owner, Query, Resource, Session, SessionOptions,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::gate::Gate;
use super::tend::tend;
use super::words::{Answer, Command, Failure, Notes, Order, Reply};

/// The function that sends an answer.
pub(super) type Tell = Arc<dyn Fn(Reply) + Send + Sync>;

/// Obeys until the orders end.
pub(super) async fn obey(
    keeper: Keeper,
    mut orders: mpsc::UnboundedReceiver<Order>,
    tell: Tell,
    gate: Arc<Gate>,
) {
    let mut role = Role {
        keeper,
        open_session: None,
        tasks: JoinSet::new(),
        under_way: HashMap::new(),
    };
    while let Some(Order { id, command }) = orders.recv().await {
        match command {
            Command::Open { owner } => {
                let answer = role.open(&owner).await;
                tell(Reply { id, answer });
            }
            Command::Cancel { order } => drop(role.under_way.remove(&order)),
            Command::Exit => std::process::exit(0),
            Command::Crash => {
                let open = role.open_session.as_ref();
                let _held = open.map(|open| std::mem::take(&mut *open.guards.lock().unwrap()));
                // This unwinds like any panic, and prints nothing.
                std::panic::resume_unwind(Box::new("crash"));
            }
            Command::Stop => {
                tell(Reply {
                    id,
                    answer: Answer::Done,
                });
                gate.wait();
            }
            command => role.start(id, command, &tell),
        }
    }
    role.end().await;
}

struct Role {
    keeper: Keeper,
    open_session: Option<OpenSession>,
    tasks: JoinSet<()>,
    /// The commands under way: dropping its sender drops a command.
    under_way: HashMap<u64, oneshot::Sender<()>>,
}

/// A session and the guards that it holds.
#[derive(Clone)]
struct OpenSession {
    session: Session,
    guards: Arc<Mutex<HashMap<Resource, Guard>>>,
}

impl Role {
    /// Ends the session: when this returns, it holds and awaits nothing.
    async fn end(&mut self) {
        self.under_way.clear();
        while self.tasks.join_next().await.is_some() {}
        self.open_session = None;
    }

    async fn open(&mut self, owner: &str) -> Answer {
        self.end().await;
        settle(&self.keeper).await;
        let owner = Owner::parse(owner).unwrap();
        let session = self.keeper.session(SessionOptions::new(owner));
        let id = session.id().clone();
        self.open_session = Some(OpenSession {
            session,
            guards: Arc::default(),
        });
        Answer::Opened { session: id }
    }

    fn start(&mut self, id: u64, command: Command, tell: &Tell) {
        let open = self
            .open_session
            .clone()
            .expect("a session is opened first");
        let (cancel, cancelled) = oneshot::channel();
        self.under_way.insert(id, cancel);
        let tell = Arc::clone(tell);
        self.tasks.spawn(async move {
            let answer = open.perform(command, cancelled).await;
            // The locks that it dropped are released before its answer is sent.
            if !matches!(answer, Answer::Granted { .. } | Answer::Listed { .. }) {
                settle(open.session.keeper()).await;
            }
            tell(Reply { id, answer });
        });
    }
}

/// Returns when the locks that this process dropped are released, so that the next look does not
/// see them.
async fn settle(keeper: &Keeper) {
    if keeper.capabilities().ttl.is_none() {
        return;
    }
    let little = Query::default().with_limit(1);
    // A store that cannot be reached now releases them later.
    drop(keeper.list(&little).await);
}

/// Drops the work when cancelled, even if it is done in that very instant.
async fn unless<T>(
    cancelled: oneshot::Receiver<()>,
    work: impl Future<Output = tenure::Result<T>>,
    say: impl FnOnce(T) -> Answer,
) -> Answer {
    tokio::select! {
        biased;
        _ = cancelled => Answer::Cancelled,
        done = work => match done {
            Ok(done) => say(done),
            Err(error) => Answer::Failed(Failure::from(error)),
        },
    }
}

pub(super) fn options(wait: Duration, notes: Notes) -> Options {
    let mut options = Options::default().with_wait(wait);
    options.purpose = notes.purpose;
    options.metadata = notes.metadata;
    options.capacity = notes.capacity;
    options
}

impl OpenSession {
    async fn perform(&self, command: Command, cancelled: oneshot::Receiver<()>) -> Answer {
        match command {
            Command::Acquire {
                resource,
                mode,
                wait,
                notes,
            } => {
                let options = options(wait, notes);
                let work = self.session.acquire(&resource, mode, &options);
                unless(cancelled, work, |guard| self.keep(vec![guard])).await
            }
            Command::Try { resource, mode } => {
                let options = Options::default();
                let work = self.session.try_acquire(&resource, mode, &options);
                let say = |guard: Option<Guard>| self.keep_if(guard.map(|guard| vec![guard]));
                unless(cancelled, work, say).await
            }
            Command::AcquireMany { items, wait } => {
                let options = options(wait, Notes::default());
                let set = self.set(items);
                let work = self.session.acquire_many(&set, &options);
                unless(cancelled, work, |guards| self.keep(guards)).await
            }
            Command::TryMany { items } => {
                let options = Options::default();
                let set = self.set(items);
                let work = self.session.try_acquire_many(&set, &options);
                unless(cancelled, work, |guards| self.keep_if(guards)).await
            }
            Command::Upgrade { resource, wait } => {
                let mut guard = self.guard(&resource);
                let work = guard.upgrade(Some(wait));
                let answer = unless(cancelled, work, |token| Answer::Upgraded { token }).await;
                self.bring_back(guard);
                answer
            }
            Command::TryUpgrade { resource } => {
                let mut guard = self.guard(&resource);
                let say = |token: Option<_>| {
                    token.map_or(Answer::NotAcquired, |token| Answer::Upgraded { token })
                };
                let answer = unless(cancelled, guard.try_upgrade(), say).await;
                self.bring_back(guard);
                answer
            }
            Command::Downgrade { resource } => {
                let mut guard = self.guard(&resource);
                let downgraded = guard.downgrade().await;
                let lease = Box::new(guard.lease());
                self.bring_back(guard);
                match downgraded {
                    Ok(_) => Answer::Downgraded { lease },
                    Err(error) => Answer::Failed(Failure::from(error)),
                }
            }
            Command::Release { resource } => match self.guard(&resource).release().await {
                Ok(()) => Answer::Done,
                Err(failed) => Answer::Failed(Failure::from(failed.source)),
            },
            Command::List => {
                let query = Query::default();
                let listing = self.session.keeper().list(&query);
                unless(cancelled, listing, |listing| Answer::Listed {
                    leases: listing.held,
                })
                .await
            }
            Command::Count {
                resource,
                file,
                times,
            } => {
                let work = self.count(&resource, &file, times);
                unless(cancelled, work, |()| Answer::Done).await
            }
            Command::Watch { resource } => {
                let guard = self.guard(&resource);
                let lost = async { Ok(guard.lost().await) };
                let say = |error| Answer::Lost(Failure::from(error));
                let answer = unless(cancelled, lost, say).await;
                self.bring_back(guard);
                answer
            }
            Command::OnLease(command) => {
                let work = tend(&self.session, command);
                unless(cancelled, work, |answer| answer).await
            }
            Command::Panic => {
                let held = std::mem::take(&mut *self.guards.lock().unwrap());
                let task = tokio::spawn(async move {
                    let _held = held;
                    std::panic::resume_unwind(Box::new("while holding"));
                });
                assert!(task.await.unwrap_err().is_panic());
                Answer::Done
            }
            Command::Open { .. }
            | Command::Cancel { .. }
            | Command::Stop
            | Command::Crash
            | Command::Exit => unreachable!("obeyed before a task is started"),
        }
    }

    async fn count(&self, resource: &Resource, file: &Path, times: u32) -> tenure::Result<()> {
        let options = options(super::LONG_WAIT, Notes::default());
        for _ in 0..times {
            let guard = self
                .session
                .acquire(resource, Mode::Write, &options)
                .await?;
            let number: u64 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
            // A session that was wrongly let in gets a chance to read the same number.
            tokio::task::yield_now().await;
            fs::write(file, (number + 1).to_string()).unwrap();
            guard.release().await.map_err(|failed| failed.source)?;
        }
        Ok(())
    }

    fn set(&self, items: Vec<(Resource, Mode)>) -> LockSet {
        LockSet::new(&self.session.keeper().settings().ranking, items)
    }

    fn keep_if(&self, guards: Option<Vec<Guard>>) -> Answer {
        guards.map_or(Answer::NotAcquired, |guards| self.keep(guards))
    }

    fn keep(&self, guards: Vec<Guard>) -> Answer {
        let leases = guards.iter().map(Guard::lease).collect();
        for guard in guards {
            self.bring_back(guard);
        }
        Answer::Granted { leases }
    }

    fn guard(&self, resource: &Resource) -> Guard {
        let guard = self.guards.lock().unwrap().remove(resource);
        guard.unwrap_or_else(|| panic!("this agent does not hold {resource}"))
    }

    fn bring_back(&self, guard: Guard) {
        let resource = guard.resource().clone();
        self.guards.lock().unwrap().insert(resource, guard);
    }
}
