//! The store as tasks use it, and futures that are dropped.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tenure_core::decide::Wait;
use tenure_core::{
    Asker, Error, Lease, LeaseId, Mode, Owner, Query, Request, Resource, Result, SessionId, Store,
    Token, UpgradeRequest,
};
use tenure_lockfile::{FileStore, holders};

use crate::process::alone;
use crate::stage::{
    LONG, ProcessResources, RandomNumbers, Stage, spin, until_waiting, waits_in_kernel,
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, for as long as a test may take.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let deadline = Instant::now() + LONG;
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => {
                let left = deadline.saturating_duration_since(Instant::now());
                assert!(!left.is_zero(), "a future that is never ready");
                thread::park_timeout(left);
            }
        }
    }
}

/// Polls once; the waker does nothing.
pub fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

pub fn asker() -> Arc<Asker> {
    Arc::new(Asker {
        session: SessionId::parse("the-session").unwrap(),
        owner: Owner::parse("ana@desk").unwrap(),
        pid: std::process::id(),
        host: "desk".into(),
        command: "make all".into(),
        agent: None,
    })
}

pub fn request(lease: &str, resource: &str, mode: Mode) -> Request {
    Request {
        standing: Default::default(),
        lease: LeaseId::parse(lease).unwrap(),
        resource: Resource::parse(resource).unwrap(),
        mode,
        asker: asker(),
        purpose: Some("a test".into()),
        metadata: None,
        deadline: None,
        wait: Wait::Until(u64::MAX),
        capacity: None,
    }
}

pub fn upgrade_of(lease: &LeaseId) -> UpgradeRequest {
    UpgradeRequest {
        standing: Default::default(),
        lease: lease.clone(),
        asker: asker(),
        deadline: None,
        wait: Wait::Until(u64::MAX),
    }
}

/// Waits for a lock.
pub async fn acquire(store: &FileStore, request: &Request) -> Result<Lease> {
    let lease = store.acquire(request).await?;
    Ok(lease.expect("a wait without an end ends with a lease"))
}

/// Takes a lock if that needs no waiting.
pub async fn try_acquire(store: &FileStore, request: &Request) -> Result<Option<Lease>> {
    let request = Request {
        wait: Wait::No,
        ..request.clone()
    };
    store.acquire(&request).await
}

/// Makes a lease exclusive if that needs no waiting.
pub async fn try_upgrade(store: &FileStore, lease: &LeaseId) -> Result<Option<Token>> {
    let request = UpgradeRequest {
        wait: Wait::No,
        ..upgrade_of(lease)
    };
    store.upgrade(&request).await
}

pub fn open(stage: &Stage) -> FileStore {
    FileStore::open(&stage.at("store"), false).unwrap()
}

fn id(lease: &str) -> LeaseId {
    LeaseId::parse(lease).unwrap()
}

#[test]
fn a_task_waits_until_the_lock_is_free() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let (first, second) = (
        request("l1", "build", Mode::Write),
        request("l2", "build", Mode::Write),
    );
    let path = one.path_of(&first.resource);
    let held = run(acquire(&one, &first)).unwrap();
    assert_eq!(run(try_acquire(&two, &second)).unwrap(), None);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| run(acquire(&two, &second)).unwrap());
        until_waiting(&path, 1);
        run(one.release(&held.lease)).unwrap();
        assert!(waiting.join().unwrap().token > held.token);
    });
    assert!(run(two.release(&id("l2"))).is_ok());
    assert!(run(two.release(&id("l2"))).is_err(), "it is over");
}

#[test]
fn a_dropped_acquire_leaves_no_lock_and_no_thread() {
    alone(|| {
        let stage = Stage::new();
        let (one, two) = (open(&stage), open(&stage));
        let path = one.path_of(&Resource::parse("build").unwrap());
        for mode in [Mode::Write, Mode::Read, Mode::Upgradeable] {
            run(acquire(&one, &request("l1", "build", Mode::Write))).unwrap();
            let (second, third) = (request("l2", "build", mode), request("l3", "build", mode));
            assert_eq!(run(try_acquire(&two, &second)).unwrap(), None);
            let before = ProcessResources::count();
            let mut first_in_line = two.acquire(&second);
            let mut behind = two.acquire(&third);
            assert!(poll(&mut first_in_line).is_pending());
            assert!(poll(&mut behind).is_pending());
            until_waiting(&path, 1);
            drop(behind);
            drop(first_in_line);
            before.until_no_more_than_before();
            run(one.release(&id("l1"))).unwrap();
            assert_eq!(holders(&path).unwrap(), []);
            assert!(
                run(try_acquire(&one, &request("l4", "build", Mode::Write)))
                    .unwrap()
                    .is_some()
            );
            run(one.release(&id("l4"))).unwrap();
        }
    });
}

#[test]
fn when_the_first_task_in_line_is_dropped_the_next_moves_up() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let requests = ["l2", "l3"].map(|lease| request(lease, "build", Mode::Write));
    let path = one.path_of(&requests[0].resource);
    run(acquire(&one, &request("l1", "build", Mode::Write))).unwrap();
    let mut first = two.acquire(&requests[0]);
    assert!(poll(&mut first).is_pending());
    until_waiting(&path, 1);
    thread::scope(|scope| {
        let second = scope.spawn(|| run(acquire(&two, &requests[1])).unwrap());
        drop(first);
        until_waiting(&path, 1);
        run(one.release(&id("l1"))).unwrap();
        assert_eq!(second.join().unwrap().lease, id("l3"));
    });
}

#[test]
fn an_acquire_that_is_never_polled_does_nothing() {
    let stage = Stage::new();
    let store = open(&stage);
    let request = request("l1", "build", Mode::Write);
    drop(store.acquire(&request));
    assert!(!store.path_of(&request.resource).exists());
}

#[test]
fn a_dropped_upgrade_leaves_the_lease_as_before() {
    alone(|| {
        let stage = Stage::new();
        let (one, two) = (open(&stage), open(&stage));
        let reader = request("reader", "build", Mode::Read);
        let path = one.path_of(&reader.resource);
        run(acquire(&two, &reader)).unwrap();
        run(acquire(&one, &request("l1", "build", Mode::Upgradeable))).unwrap();
        let before = ProcessResources::count();
        let lease = id("l1");
        let wanted = upgrade_of(&lease);
        let mut upgrade = one.upgrade(&wanted);
        assert!(poll(&mut upgrade).is_pending());
        until_waiting(&path, 1);
        assert!(
            run(one.renew(&lease)).is_ok(),
            "it is held while its upgrade waits"
        );
        drop(upgrade);
        before.until_no_more_than_before();
        run(one.renew(&lease)).unwrap();
        let modes = holders(&path)
            .unwrap()
            .iter()
            .map(|held| held.mode)
            .collect::<Vec<_>>();
        assert_eq!(modes, [Mode::Upgradeable, Mode::Read]);
        run(two.release(&reader.lease)).unwrap();
        assert!(
            run(try_acquire(&two, &request("w", "build", Mode::Write)))
                .unwrap()
                .is_none()
        );
        assert!(
            run(try_acquire(&two, &request("r", "build", Mode::Read)))
                .unwrap()
                .is_some()
        );
        run(two.release(&id("r"))).unwrap();
        assert!(run(one.upgrade(&upgrade_of(&lease))).is_ok());
        run(one.release(&lease)).unwrap();
        assert_eq!(holders(&path).unwrap(), []);
    });
}

/// Until it is dropped, keeps a store's threads from drawing their first token, as a slow disk
/// would.
struct SlowDisk {
    lock: std::fs::File,
    path: PathBuf,
}

impl SlowDisk {
    fn of(stage: &Stage) -> Self {
        let path = stage.at("store/tokens.lock");
        let lock = std::fs::File::create(&path).unwrap();
        lock.lock().unwrap();
        Self { lock, path }
    }

    fn until_met(&self) {
        until_waiting(&self.path, 1);
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.lock.unlock().unwrap();
    }
}

/// Half the time of a drop that waits.
const AT_ONCE: Duration = Duration::from_secs(1);

#[test]
fn a_drop_does_not_wait_for_a_thread_that_is_busy_with_the_disk() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let [reader, writer, next] = [
        request("r", "build", Mode::Read),
        request("w", "build", Mode::Write),
        request("next", "build", Mode::Write),
    ];
    let path = one.path_of(&reader.resource);
    run(acquire(&one, &reader)).unwrap();
    let disk = SlowDisk::of(&stage);
    let mut waiting = two.acquire(&writer);
    assert!(poll(&mut waiting).is_pending());
    disk.until_met();
    let mut behind = two.acquire(&next);
    assert!(poll(&mut behind).is_pending());
    let dropped = Instant::now();
    drop(waiting);
    assert!(dropped.elapsed() < AT_ONCE, "it waited for the disk");
    assert!(poll(&mut behind).is_pending());
    assert_eq!(
        waits_in_kernel(&path),
        0,
        "the next waits until its thread is done"
    );
    drop(disk);
    run(one.release(&reader.lease)).unwrap();
    assert_eq!(run(behind).unwrap().unwrap().lease, next.lease);
    assert_eq!(holders(&path).unwrap().len(), 1);
    run(two.release(&next.lease)).unwrap();
    assert_eq!(holders(&path).unwrap(), []);
}

#[test]
fn a_dropped_upgrade_that_is_busy_with_the_disk_is_undone_and_the_lease_usable() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let reader = request("r", "build", Mode::Read);
    let path = one.path_of(&reader.resource);
    let lease = id("l1");
    run(acquire(&two, &reader)).unwrap();
    run(acquire(&one, &request("l1", "build", Mode::Upgradeable))).unwrap();
    let disk = SlowDisk::of(&stage);
    let wanted = upgrade_of(&lease);
    let mut upgrade = one.upgrade(&wanted);
    assert!(poll(&mut upgrade).is_pending());
    until_waiting(&path, 1);
    run(two.release(&reader.lease)).unwrap();
    disk.until_met();
    let dropped = Instant::now();
    drop(upgrade);
    assert!(dropped.elapsed() < AT_ONCE, "it waited for the disk");
    run(one.renew(&lease)).unwrap();
    let mut downgrade = one.downgrade(&lease);
    assert!(poll(&mut downgrade).is_pending(), "the grant is not undone");
    drop(disk);
    let downgraded = run(downgrade);
    assert!(matches!(downgraded, Err(Error::Conflict { .. })), "it was");
    let modes = holders(&path).unwrap().into_iter().map(|held| held.mode);
    assert_eq!(modes.collect::<Vec<_>>(), [Mode::Upgradeable]);
    assert!(run(try_upgrade(&one, &lease)).unwrap().is_some());
    run(one.release(&lease)).unwrap();
    assert_eq!(holders(&path).unwrap(), []);
}

#[test]
fn a_lease_is_released_after_its_dropped_upgrade_is_undone() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let reader = request("r", "build", Mode::Read);
    let lease = id("l1");
    run(acquire(&two, &reader)).unwrap();
    run(acquire(&one, &request("l1", "build", Mode::Upgradeable))).unwrap();
    let disk = SlowDisk::of(&stage);
    let wanted = upgrade_of(&lease);
    let mut upgrade = one.upgrade(&wanted);
    assert!(poll(&mut upgrade).is_pending());
    run(two.release(&reader.lease)).unwrap();
    disk.until_met();
    drop(upgrade);
    let mut release = one.release(&lease);
    assert!(poll(&mut release).is_pending());
    drop(disk);
    run(release).unwrap();
    assert!(
        run(try_acquire(&two, &request("w", "build", Mode::Write)))
            .unwrap()
            .is_some()
    );
}

#[test]
fn an_acquire_dropped_in_the_instant_of_the_grant_leaves_nothing() {
    alone(|| {
        let stage = Stage::new();
        let (one, two) = (open(&stage), open(&stage));
        let (first, second) = (
            request("l1", "build", Mode::Write),
            request("l2", "build", Mode::Write),
        );
        let path = one.path_of(&first.resource);
        run(acquire(&one, &first)).unwrap();
        assert_eq!(run(try_acquire(&two, &second)).unwrap(), None);
        run(one.release(&first.lease)).unwrap();
        let before = ProcessResources::count();
        let mut spread = RandomNumbers::new();
        let mut granted = 0;
        for _ in 0..400 {
            run(acquire(&one, &first)).unwrap();
            let mut waiting = two.acquire(&second);
            let mut answer = poll(&mut waiting);
            let (held, wait) = (spread.micros_below(150), spread.micros_below(150));
            thread::scope(|scope| {
                scope.spawn(|| {
                    spin(held);
                    run(one.release(&first.lease)).unwrap();
                });
                spin(wait);
                if answer.is_pending() {
                    answer = poll(&mut waiting);
                }
                drop(waiting);
            });
            if answer.is_ready() {
                granted += 1;
                run(two.release(&second.lease)).unwrap();
            }
            assert_eq!(holders(&path).unwrap(), [], "a phantom");
            let free = run(try_acquire(&one, &first)).unwrap();
            assert!(free.is_some(), "a phantom holds it or waits for it");
            run(one.release(&first.lease)).unwrap();
        }
        assert!(granted < 400, "none was dropped");
        before.until_no_more_than_before();
    });
}

#[test]
fn an_upgrade_dropped_in_the_instant_of_the_grant_leaves_it_upgradeable() {
    alone(|| {
        let stage = Stage::new();
        let (one, two) = (open(&stage), open(&stage));
        let (upgradeable, reader) = (
            request("l1", "build", Mode::Upgradeable),
            request("r", "build", Mode::Read),
        );
        let path = one.path_of(&reader.resource);
        run(acquire(&one, &upgradeable)).unwrap();
        run(acquire(&two, &reader)).unwrap();
        run(two.release(&reader.lease)).unwrap();
        let before = ProcessResources::count();
        let mut spread = RandomNumbers::new();
        for _ in 0..400 {
            run(acquire(&two, &reader)).unwrap();
            let wanted = upgrade_of(&upgradeable.lease);
            let mut upgrade = one.upgrade(&wanted);
            assert!(poll(&mut upgrade).is_pending());
            let (held, wait) = (spread.micros_below(150), spread.micros_below(150));
            let mut upgraded = false;
            thread::scope(|scope| {
                scope.spawn(|| {
                    spin(held);
                    run(two.release(&reader.lease)).unwrap();
                });
                spin(wait);
                if let Poll::Ready(answer) = poll(&mut upgrade) {
                    answer.unwrap();
                    upgraded = true;
                }
                drop(upgrade);
            });
            if upgraded {
                run(one.downgrade(&upgradeable.lease)).unwrap();
            }
            let held = holders(&path).unwrap();
            assert_eq!(held.len(), 1);
            assert_eq!(held[0].mode, Mode::Upgradeable);
            assert_eq!(
                run(try_acquire(&two, &request("w", "build", Mode::Write))).unwrap(),
                None
            );
        }
        before.until_no_more_than_before();
    });
}

#[test]
fn a_lease_abandoned_while_its_upgrade_waits_is_over() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let reader = request("r", "build", Mode::Read);
    run(acquire(&two, &reader)).unwrap();
    let lease = id("l1");
    run(acquire(&one, &request("l1", "build", Mode::Upgradeable))).unwrap();
    let wanted = upgrade_of(&lease);
    let mut upgrade = one.upgrade(&wanted);
    assert!(poll(&mut upgrade).is_pending());
    one.abandon(&lease);
    drop(upgrade);
    run(two.release(&reader.lease)).unwrap();
    let free = run(try_acquire(&two, &request("w", "build", Mode::Write))).unwrap();
    assert!(free.is_some(), "nobody can end it any more");
}

#[test]
fn an_upgrade_that_cannot_start_leaves_the_lease_as_before() {
    alone(|| {
        let stage = Stage::new();
        let _nobody = crate::trouble::Nobody::who_may_use(&stage);
        let (one, two) = (open(&stage), open(&stage));
        // The bounds of the tokens are drawn here, since drawing them may need a wait.
        run(acquire(&two, &request("w", "build", Mode::Write))).unwrap();
        run(two.release(&id("w"))).unwrap();
        run(acquire(&two, &request("r", "build", Mode::Read))).unwrap();
        let lease = id("l1");
        run(acquire(&one, &request("l1", "build", Mode::Upgradeable))).unwrap();
        crate::trouble::forbid_new_threads();
        let failed = run(one.upgrade(&upgrade_of(&lease)));
        assert!(failed.is_err(), "a wait without a thread");
        run(one.renew(&lease)).unwrap();
        assert_eq!(
            run(try_acquire(&two, &request("u", "build", Mode::Upgradeable))).unwrap(),
            None
        );
        run(one.release(&lease)).unwrap();
        run(two.release(&id("r"))).unwrap();
        assert!(
            run(try_acquire(&two, &request("w", "build", Mode::Write)))
                .unwrap()
                .is_some()
        );
    });
}

#[test]
fn an_abandoned_lease_is_free_at_once_and_so_is_a_dropped_store() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let (first, second) = (
        request("l1", "build", Mode::Write),
        request("l2", "build", Mode::Write),
    );
    run(acquire(&one, &first)).unwrap();
    one.abandon(&first.lease);
    run(try_acquire(&two, &second)).unwrap().unwrap();
    drop(two);
    assert!(run(try_acquire(&one, &first)).unwrap().is_some());
    let listed = run(one.list(&Query::default())).unwrap();
    assert_eq!(listed.held.len(), 1);
}

#[test]
fn a_descriptor_keeps_the_lock_until_it_is_released() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let (first, second) = (
        request("l1", "build", Mode::Write),
        request("l2", "build", Mode::Write),
    );
    let tries = || run(try_acquire(&two, &second)).unwrap().is_some();
    run(acquire(&one, &first)).unwrap();
    let descriptor = one.descriptor(&first.lease).unwrap().unwrap();
    run(one.release(&first.lease)).unwrap();
    assert!(tries(), "an explicit release frees it, whoever has it open");
    run(two.release(&second.lease)).unwrap();
    // The open file that was given away is not used for a later lock.
    run(acquire(&one, &first)).unwrap();
    one.abandon(&first.lease);
    assert!(tries());
    assert_eq!(run(one.list(&Query::default())).unwrap().held.len(), 1);
    drop(descriptor);
    assert_eq!(run(one.list(&Query::default())).unwrap().held.len(), 1);
}
