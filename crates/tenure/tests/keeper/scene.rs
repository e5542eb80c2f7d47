//! A keeper, its sessions, and ways to look at what happens between them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tenure::{
    Guard, Keeper, LockSet, Mode, Options, Owner, Query, Ranking, Resource, Result, Session,
    SessionOptions, Waiting,
};
use tokio::task::JoinHandle;

/// Everything a test waits for happens within this time, or the test fails.
const LONG_WAIT: Duration = Duration::from_secs(20);

pub async fn keeper() -> Keeper {
    Keeper::open("memory:").await.unwrap()
}

pub async fn session(keeper: &Keeper, owner: &str) -> Session {
    let owner = Owner::parse(owner).unwrap();
    let options = SessionOptions::new(owner);
    keeper.session(options)
}

pub fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

pub fn set(items: &[(&str, Mode)]) -> LockSet {
    let items = items.iter().map(|(text, mode)| (resource(text), *mode));
    LockSet::new(&Ranking::default(), items)
}

pub fn wait(millis: u64) -> Options {
    Options::default().with_wait(Duration::from_millis(millis))
}

/// Waits so long that only a mistake makes the time run out.
pub fn patient() -> Options {
    wait(LONG_WAIT.as_millis().try_into().unwrap())
}

/// Takes a free lock.
pub async fn take(session: &Session, text: &str, mode: Mode) -> Guard {
    let taken = session
        .try_acquire(&resource(text), mode, &Options::default())
        .await;
    let taken = taken.unwrap();
    taken.unwrap_or_else(|| panic!("{text} is not free for {mode}"))
}

/// Asks for a lock in a task of its own, and returns when the request is in line.
pub async fn ask(session: &Session, text: &str, mode: Mode) -> JoinHandle<Result<Guard>> {
    ask_with(session, text, mode, patient()).await
}

pub async fn ask_with(
    session: &Session,
    text: &str,
    mode: Mode,
    options: Options,
) -> JoinHandle<Result<Guard>> {
    let (session, resource) = (session.clone(), resource(text));
    let keeper = session.keeper().clone();
    let before = waiting(&keeper).await.len();
    let asking = async move { session.acquire(&resource, mode, &options).await };
    let asking = tokio::spawn(asking);
    until("the request is in line", async || {
        waiting(&keeper).await.len() > before
    })
    .await;
    asking
}

pub async fn waiting(keeper: &Keeper) -> Vec<Waiting> {
    let listing = keeper.list(&Query::default()).await.unwrap();
    listing.waiting.unwrap()
}

/// Returns the resources held, with their modes.
pub async fn held(keeper: &Keeper) -> Vec<String> {
    let listing = keeper.list(&Query::default()).await.unwrap();
    let show = |lease: tenure::Lease| format!("{} {}", lease.resource, lease.mode);
    listing.held.into_iter().map(show).collect()
}

/// Asserts that no lock is held and no request waits.
pub async fn assert_idle(keeper: &Keeper) {
    let listing = keeper.list(&Query::default()).await.unwrap();
    assert_eq!(listing.held, []);
    assert_eq!(listing.waiting, Some(vec![]));
}

/// Lets other tasks run until the condition holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < LONG_WAIT, "in vain: {what}");
        tokio::task::yield_now().await;
    }
}

/// Polls a future by hand, `times` at most.
pub fn poll_times<F: Future>(future: &mut Pin<Box<F>>, times: usize) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..times {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
    }
    None
}
