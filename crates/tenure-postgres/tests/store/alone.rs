//! The column that the plain cases rely on is never false, after any operation.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::decide::Wait;
use tenure_core::{LeaseId, Mode, Store, UpgradeRequest};
use tenure_os::clock;
use tenure_postgres::PostgresStore;
use tenure_testkit::postgres::Database;

use crate::scene::{Asks, Scene, WAIT_MAX, asker, open, request, take, until};

/// Counts resources whose column says something false. The looking transaction must have the row.
const FALSE: &str = "SELECT count(*) FROM tenure.resources r WHERE \
    (r.alone = '' AND (EXISTS (SELECT 1 FROM tenure.dal_locks l WHERE l.resource = r.resource) \
                       OR EXISTS (SELECT 1 FROM tenure.waiters w WHERE w.resource = r.resource))) \
    OR (r.alone <> '' AND (NOT EXISTS (SELECT 1 FROM tenure.dal_locks l WHERE l.lock_id = rtrim(r.alone, '+') \
                                       AND l.resource = r.resource AND l.state = 'held') \
                           OR EXISTS (SELECT 1 FROM tenure.dal_locks l WHERE l.resource = r.resource \
                                      AND l.lock_id <> rtrim(r.alone, '+')) \
                           OR EXISTS (SELECT 1 FROM tenure.waiters w WHERE w.resource = r.resource) \
                              <> (r.alone LIKE '%+') \
                           OR EXISTS (SELECT 1 FROM tenure.waiters w WHERE w.resource = r.resource \
                                      AND w.want = 'upgrade')))";

/// Counts free resources that the column does not call free: allowed, but slow.
const UNSAID: &str = "SELECT count(*) FROM tenure.resources r WHERE r.alone IS DISTINCT FROM '' \
    AND NOT EXISTS (SELECT 1 FROM tenure.dal_locks l WHERE l.resource = r.resource) \
    AND NOT EXISTS (SELECT 1 FROM tenure.waiters w WHERE w.resource = r.resource)";

/// Makes every transaction check, right before it commits and with the row still locked, whether it
/// leaves the truth. No store can be opened from here on: such triggers are refused.
fn have_every_commit_looked_at(database: &Database) {
    database.psql(&format!(
        "CREATE TABLE public.lies (changed text, resource text);
         CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF ({FALSE}) + ({UNSAID}) <> 0 THEN
                 INSERT INTO public.lies VALUES (TG_TABLE_NAME, coalesce(NEW.resource, OLD.resource));
             END IF; RETURN NULL; END $$"
    ));
    for table in ["resources", "dal_locks", "waiters"] {
        database.psql(&format!(
            "CREATE CONSTRAINT TRIGGER look AFTER INSERT OR UPDATE OR DELETE ON tenure.{table}
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.look()"
        ));
    }
}

/// A small generator of random numbers, so that a run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Takes, upgrades, gives back and gives up locks for a while, as one of many tasks.
async fn rush(store: Arc<PostgresStore>, seed: u64) {
    let mut random = Random(seed);
    let mut held: Vec<(LeaseId, Mode)> = Vec::new();
    for _ in 0..60 {
        let resource = ["x", "y"][random.below(2) as usize];
        let mode = [Mode::Read, Mode::Write, Mode::Upgradeable][random.below(3) as usize];
        let wait = Duration::from_millis(random.below(200));
        match random.below(7) {
            0 | 1 => {
                let request = request(resource, mode, wait);
                if let Ok(Some(lease)) = store.try_acquire(&request).await {
                    held.push((lease.lease, mode));
                }
            }
            2 => {
                let request = request(resource, mode, wait);
                if let Ok(lease) = store.wait_for(&request).await {
                    held.push((lease.lease, mode));
                }
            }
            3 => {
                // The request is dropped somewhere half-way.
                let request = request(resource, mode, Duration::from_secs(5));
                let wait = Duration::from_micros(random.below(20_000));
                if let Ok(Ok(lease)) = tokio::time::timeout(wait, store.wait_for(&request)).await {
                    held.push((lease.lease, mode));
                }
            }
            4 => {
                let upgradeable = held.iter().find(|(_, mode)| *mode == Mode::Upgradeable);
                if let Some((lease, _)) = upgradeable {
                    let request = UpgradeRequest {
                        standing: Default::default(),
                        lease: lease.clone(),
                        asker: asker("ana"),
                        deadline: None,
                        wait: Wait::Until(clock::boot_now() + random.below(40)),
                    };
                    if store.wait_for_upgrade(&request).await.is_ok() && random.below(2) == 0 {
                        store.downgrade(lease).await.unwrap();
                    }
                }
            }
            _ => {
                if let Some((lease, _)) = held.pop() {
                    store.release(&lease).await.unwrap();
                }
            }
        }
    }
    for (lease, _) in held {
        match random.below(2) {
            0 => store.abandon(&lease),
            _ => store.release(&lease).await.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_empty_cases_rely_on_is_true_after_any_steps() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let scene = Scene::new().await;
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(open(&scene.database.url()).await.unwrap()));
    }
    have_every_commit_looked_at(&scene.database);
    let mut all = Vec::new();
    for number in 0..9 {
        let (store, seed) = (&stores[number / 3], (number as u64 + 1) * 7_919 + seed);
        all.push(tokio::spawn(rush(Arc::clone(store), seed)));
    }
    let mut looks = 0;
    while all.iter().any(|one| !one.is_finished()) {
        assert_eq!(scene.database.psql(FALSE), "0", "seed {seed}");
        looks += 1;
    }
    for one in all {
        one.await.unwrap();
    }
    assert!(looks > 5, "only {looks} looks");
    until("all is given back", || {
        let left = "SELECT (SELECT count(*) FROM tenure.dal_locks) + (SELECT count(*) FROM tenure.waiters)";
        scene.database.psql(left) == "0"
    })
    .await;
    assert_eq!(scene.database.psql(FALSE), "0", "seed {seed}");
    assert_eq!(scene.database.psql(UNSAID), "0", "seed {seed}");
    let lies = "SELECT count(*), string_agg(DISTINCT changed, ' ') FROM public.lies";
    assert_eq!(scene.database.psql(lies), "0|", "seed {seed}");
    let handed_over = "SELECT count(*) > 0 FROM tenure.audit WHERE reason = 'next in line'";
    assert_eq!(
        scene.database.psql(handed_over),
        "t",
        "nobody ever had to wait"
    );
}

/// While a lease is offered and not yet taken up, no session may end it by the short way.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_empty_cases_rely_on_is_true_while_a_lease_is_handed_over() {
    let scene = Scene::new().await;
    let other = Arc::new(open(&scene.database.url()).await.unwrap());
    have_every_commit_looked_at(&scene.database);
    for mode in [Mode::Write, Mode::Read, Mode::Upgradeable] {
        for waiters in 1..3 {
            let mut before = take(&scene.store, "a").await;
            let mut line = Vec::new();
            for number in 0..waiters {
                let (other, asked) = (Arc::clone(&other), request("a", mode, WAIT_MAX));
                line.push(tokio::spawn(async move {
                    other.wait_for(&asked).await.unwrap()
                }));
                until("it waits", || scene.waiting() == number + 1).await;
            }
            for one in line {
                other.release(&before.lease).await.unwrap();
                before = one.await.unwrap();
            }
            other.release(&before.lease).await.unwrap();
            let lies = "SELECT count(*), string_agg(DISTINCT changed, ' ') FROM public.lies";
            assert_eq!(scene.database.psql(lies), "0|", "{mode}, {waiters} in line");
        }
    }
}
