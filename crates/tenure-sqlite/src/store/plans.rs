//! No statement of the store scans a table: every step is taken once, and SQLite is asked how it
//! runs each statement that was prepared for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tenure_core::audit::AuditQuery;
use tenure_core::decide::Wait;
use tenure_core::leases::{Keyed, Recovery};
use tenure_core::records::{
    Changes, Column, Columns, Decide, RecordChange, RecordKey, RecordQuery, Seen,
};
use tenure_core::{
    Asker, IdempotenceKey, LeaseId, LeaseStore, Mode, Owner, Query, Ranking, RecordStore, Request,
    Resource, SessionId, Store, UpgradeRequest,
};

use crate::{OpenOptions, SqliteStore};

/// The scans that a plan may have, each with its reason.
const ALLOWED: [(&str, &str); 4] = [
    ("SCAN json_each ", "it is a value of the caller"),
    ("SCAN store", "the table has one row"),
    ("SCAN CONSTANT ROW", "it is no table"),
    ("SCAN (subquery-", "what it reads has a line of its own"),
];

const HOUR: Duration = Duration::from_secs(3600);

fn id(name: &str) -> LeaseId {
    LeaseId::parse(name).unwrap()
}

fn resource(name: &str) -> Resource {
    Resource::parse(name).unwrap()
}

/// Returns an asker with a session of its own.
fn asker(lease: &str) -> Arc<Asker> {
    Arc::new(Asker {
        session: SessionId::parse(&format!("of-{lease}")).unwrap(),
        owner: Owner::parse("ana").unwrap(),
        pid: std::process::id(),
        host: "here".into(),
        command: "test".into(),
        agent: None,
    })
}

fn request(lease: &str, name: &str, mode: Mode) -> Request {
    Request {
        standing: Default::default(),
        lease: id(lease),
        resource: resource(name),
        mode,
        asker: asker(lease),
        purpose: None,
        metadata: None,
        deadline: None,
        wait: Wait::Until(u64::MAX),
        capacity: None,
    }
}

fn keyed(key: &str) -> Keyed {
    Keyed {
        key: IdempotenceKey::parse(key).unwrap(),
        owner: Owner::parse("ana").unwrap(),
        request: "k".into(),
        asker: asker("k"),
    }
}

async fn take(store: &SqliteStore, lease: &str, name: &str, mode: Mode) {
    let lease = store.acquire(&request(lease, name, mode)).await;
    lease.unwrap().unwrap();
}

/// Waits until so many are in line.
async fn until_waiting(store: &SqliteStore, count: usize) {
    for _ in 0..30_000 {
        let listing = store.list(&Query::default()).await.unwrap();
        if listing.waiting.unwrap().len() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("in vain: {count} wait");
}

async fn grants_and_lines(store: &SqliteStore) {
    take(store, "a", "a", Mode::Write).await;
    let (first, second) = (
        request("a1", "a", Mode::Write),
        request("a2", "a", Mode::Write),
    );
    let waits = async |request: &Request| {
        store.acquire(request).await.unwrap().unwrap();
        store.release(&request.lease).await.unwrap();
    };
    let releases = async {
        until_waiting(store, 2).await;
        let position = store.position(&resource("a"), &id("a2")).await;
        assert_eq!(position.unwrap(), Some(2));
        store.release(&id("a")).await.unwrap();
    };
    tokio::join!(waits(&first), waits(&second), releases);
    store.token(&resource("a")).await.unwrap().unwrap();

    take(store, "u", "u", Mode::Upgradeable).await;
    take(store, "r", "u", Mode::Read).await;
    let upgrade = UpgradeRequest {
        standing: Default::default(),
        lease: id("u"),
        asker: asker("u"),
        deadline: None,
        wait: Wait::Until(u64::MAX),
    };
    let reader_leaves = async {
        until_waiting(store, 1).await;
        store.abandon(&id("r"));
    };
    let (upgraded, ()) = tokio::join!(store.upgrade(&upgrade), reader_leaves);
    upgraded.unwrap().unwrap();
    store.downgrade(&id("u")).await.unwrap();

    take(store, "h", "h", Mode::Write).await;
    let (asker, ttl) = (asker("t"), Duration::from_secs(60));
    let taken = store.take_over(&id("h"), &id("t"), ttl, &asker).await;
    taken.unwrap().unwrap();
}

async fn leases_of_their_own(store: &SqliteStore, other: &Connection) {
    let actor = Owner::parse("bo").unwrap();
    store.begin_key(&keyed("unused")).await.unwrap();
    store.forget_key(&keyed("unused")).await.unwrap();
    store.begin_key(&keyed("k")).await.unwrap();
    take(store, "k", "k", Mode::Write).await;
    let bound = store.bind(&[id("k")], HOUR, Some(&keyed("k"))).await;
    bound.unwrap();
    store.find(&id("k")).await.unwrap().unwrap();
    store.of_session(&asker("k").session).await.unwrap();
    store.extend(&id("k"), None).await.unwrap();
    for claimant in ["j1", "j2"] {
        let claimed = store.claim(&id("k"), claimant, &asker("k")).await;
        claimed.unwrap();
    }
    store.unclaim(&id("k"), "j1").await.unwrap();
    let expire = "UPDATE dal_locks SET expires_boot = 1 WHERE lock_id = 'k'";
    other.execute(expire, []).unwrap();
    let recovered = store.recover(&actor, Recovery::DryRun, None).await.unwrap();
    assert!(recovered.leases.iter().any(|lease| !lease.recoverable));
    store.release(&id("k")).await.unwrap();
    store.ended(&id("k")).await.unwrap().unwrap();

    take(store, "b", "b", Mode::Write).await;
    store.break_lease(&id("b"), &actor, "why").await.unwrap();
    store.inner.break_reason(&id("b")).await.unwrap();
}

async fn looks_and_ends(store: &SqliteStore, other: &Connection) {
    let actor = Owner::parse("bo").unwrap();
    // A heartbeat of long ago, and the row and the waiter that a dead session left.
    other
        .execute_batch(
            "UPDATE dal_locks SET heartbeat_ts = '2020-01-01T00:00:00.000Z'; \
             INSERT INTO sessions VALUES ('gone', 0, 0, 'another-boot', 1, 'h', 'o', 't'); \
             INSERT INTO waiters (lock_id, resource, want, mode, session, holder_session, owner, \
             since, boot_id, pid, host, command) VALUES ('w', 'name:u', 'lease', 'write', 'gone', \
             'gone', 'o', '2020-01-01T00:00:00.000Z', 'another-boot', 1, 'h', 'c')",
        )
        .unwrap();
    store.renew(&id("u")).await.unwrap();
    store.recover(&actor, Recovery::Real, None).await.unwrap();
    store.audit(&AuditQuery::default()).await.unwrap();
    store.list(&Query::default()).await.unwrap();
    let agent = Owner::parse("agent:a").unwrap();
    let of_one = Query::default().with_owner(agent.clone());
    store.list(&of_one).await.unwrap();
    let of_several = Query::default().with_owners([agent]);
    store.list(&of_several).await.unwrap();
    store.circles().await.unwrap();
    let examined = store.examine().await.unwrap();
    assert!(examined.iter().all(|one| one.good), "{examined:?}");
    store.end_session(&asker("u").session);
}

/// Makes every write and every list of records.
async fn records(store: &SqliteStore) {
    let key = RecordKey::new("thing", "a").unwrap();
    let put = |state: Option<&'static str>| {
        let key = key.clone();
        move |_: &Seen| {
            let mut changes = Changes::default();
            let columns = Columns {
                state: state.map(str::to_owned),
                ..Columns::default()
            };
            changes.put(key.clone(), columns, 1.into());
            Ok(changes)
        }
    };
    let delete = |_: &Seen| {
        let mut changes = Changes::default();
        changes.delete(key.clone());
        Ok(changes)
    };
    let puts = [put(None), put(None), put(Some("open"))];
    let decisions: [&Decide<'_>; 4] = [&puts[0], &puts[1], &puts[2], &delete];
    for decide in decisions {
        let change = RecordChange::new([key.clone()], decide);
        store.change_records(&change).await.unwrap();
        store.read_record(&key).await.unwrap();
    }
    for column in [
        None,
        Some(Column::State("open".into())),
        Some(Column::Owner("ana".into())),
        Some(Column::Subject("x".into())),
    ] {
        let mut query = RecordQuery::new("thing");
        query.column = column;
        store.list_records(&query).await.unwrap();
    }
}

/// Returns the statements in the sources of the store, each as the fixed pieces of its text.
fn statements_in_sources() -> Vec<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let mut statements = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if !path.is_file() || path.ends_with("plans.rs") {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let product = source.split("#[cfg(test)]").next().unwrap();
        let lines: Vec<&str> = product.split("\\\n").map(str::trim_start).collect();
        let product = lines.concat();
        for verb in ["SELECT", "INSERT", "UPDATE", "DELETE"] {
            for (at, _) in product.match_indices(&format!("\"{verb} ")) {
                let literal = product[at + 1..].split('"').next().unwrap();
                let pieces = literal.split(['{', '}']).step_by(2);
                statements.push(pieces.map(str::to_owned).collect());
            }
        }
    }
    statements
}

fn plan_of(connection: &Connection, statement: &str) -> Vec<String> {
    let explain = format!("EXPLAIN QUERY PLAN {statement}");
    let mut explain = connection.prepare(&explain).unwrap();
    let plan = explain.raw_query().mapped(|row| row.get(3));
    plan.collect::<rusqlite::Result<_>>().unwrap()
}

#[tokio::test]
async fn no_statement_scans_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s/t.db");
    let mut options = OpenOptions::trusting(true);
    options.order = Some(Ranking::new(["name", "slot"].map(str::to_owned)));
    let store = SqliteStore::open(&path, options).unwrap();
    let other = Connection::open(&path).unwrap();
    grants_and_lines(&store).await;
    leases_of_their_own(&store, &other).await;
    looks_and_ends(&store, &other).await;
    records(&store).await;

    let prepared: BTreeSet<String> = store.inner.db().unwrap().prepared.take();
    let sources = statements_in_sources();
    assert!(sources.len() > 40, "{sources:?}");
    for pieces in sources {
        let is_it = |sql: &&String| pieces.iter().all(|piece| sql.contains(piece));
        let found = prepared.iter().find(is_it);
        assert!(found.is_some(), "no step above prepares {pieces:?}");
    }
    // A list of the leases of an agent costs no more where others hold much.
    let by_agent = |sql: &&String| sql.contains("dal_locks_by_agent");
    let by_agent: Vec<_> = prepared.iter().filter(by_agent).collect();
    assert_eq!(by_agent.len(), 2, "{by_agent:?}");
    for statement in by_agent {
        let plan = plan_of(&other, statement);
        let search = "SEARCH dal_locks USING INDEX dal_locks_by_agent (owner=? AND (resource,lock_id)>(?,?) AND resource<?)";
        assert!(plan.iter().any(|line| line == search), "{plan:?}");
    }
    for statement in &prepared {
        for line in plan_of(&other, statement) {
            let allowed = ALLOWED.iter().any(|(scan, _)| line.starts_with(scan));
            assert!(
                !line.starts_with("SCAN") || allowed,
                "{line}, in: {statement}"
            );
        }
    }
}
