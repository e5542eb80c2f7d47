//! Names, pages and leases of the store.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tenure_core::{Class, LeaseId, Mode, Query, Request, Resource, Store};
use tenure_lockfile::FileStore;

use crate::stage::Stage;
use crate::task::{acquire, open, request, run, try_acquire, try_upgrade, upgrade_of};

fn numbered(number: usize, resource: Resource) -> Request {
    Request {
        lease: LeaseId::parse(&format!("l{number}")).unwrap(),
        resource,
        ..request("l", "name:x", Mode::Write)
    }
}

/// Returns the directory with the lock files.
fn locks_of(store: &FileStore) -> PathBuf {
    let directory = store.url().strip_prefix("file:").unwrap();
    Path::new(directory).join("locks")
}

#[test]
fn names_with_every_kind_of_odd_byte_are_locked_apart_and_listed_as_they_are() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let mut names: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let odd: [&[u8]; 12] = [
        b"..",
        b"../../etc/passwd",
        b"a/b",
        b"a/./b",
        b"a,b",
        b"a#b",
        b"a%2fb",
        b"-rf",
        b"a\nb\0c",
        b"\xff\xfe",
        "é→🔒".as_bytes(),
        b" ",
    ];
    names.extend(odd[..11].iter().map(|name| name.to_vec()));
    names.push(vec![b'x'; 1019]);
    names.push([vec![b'x'; 1018], vec![b'y']].concat());
    names.push(vec![0xff; 339]);
    let resources: BTreeSet<_> = names
        .iter()
        .map(|n| Resource::new("name", n).unwrap())
        .collect();
    assert_eq!(resources.len(), names.len());
    for (number, resource) in resources.iter().enumerate() {
        let request = numbered(number, resource.clone());
        assert!(
            run(try_acquire(&one, &request)).unwrap().is_some(),
            "{resource}"
        );
        assert!(
            run(try_acquire(&two, &request)).unwrap().is_none(),
            "{resource}"
        );
        let path = one.path_of(resource);
        assert_eq!(path.parent(), Some(&*locks_of(&one)), "{resource}");
        assert!(path.symlink_metadata().unwrap().is_file());
    }
    let all = Query::default().with_limit(names.len());
    let listed = run(two.list(&all)).unwrap();
    let listed: BTreeSet<_> = listed
        .held
        .into_iter()
        .map(|lease| lease.resource)
        .collect();
    assert_eq!(listed, resources);
    let files = fs::read_dir(locks_of(&one)).unwrap().count();
    assert_eq!(files, names.len());
}

#[test]
fn pages_hold_everything_once_in_order() {
    let stage = Stage::new();
    let store = open(&stage);
    let long = "long".repeat(60);
    let names = [
        "a",
        "a/b",
        "a-b",
        "a.b",
        "b",
        "c",
        &long,
        &format!("{long}x"),
        "é",
    ];
    let mut held = BTreeSet::new();
    for (number, name) in names.iter().enumerate() {
        for mode in [Mode::Read, Mode::Upgradeable] {
            let mut request = numbered(
                2 * number + mode as usize % 2,
                Resource::parse(name).unwrap(),
            );
            request.mode = mode;
            held.insert((request.resource.clone(), request.lease.clone()));
            run(acquire(&store, &request)).unwrap();
        }
    }
    for limit in 1..=held.len() + 1 {
        let mut seen = Vec::new();
        let mut query = Query::default().with_limit(limit);
        loop {
            let page = run(store.list(&query)).unwrap();
            assert!(page.held.len() <= limit);
            seen.extend(
                page.held
                    .into_iter()
                    .map(|lease| (lease.resource, lease.lease)),
            );
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        let once: BTreeSet<_> = seen.iter().cloned().collect();
        assert_eq!((once.len(), &once), (seen.len(), &held), "pages of {limit}");
    }
}

#[test]
fn odd_entries_among_the_lock_files_hide_nobody() {
    let stage = Stage::new();
    let store = open(&stage);
    let request = numbered(1, Resource::parse("held").unwrap());
    run(acquire(&store, &request)).unwrap();
    let locks = locks_of(&store);
    fs::create_dir(locks.join("name:directory.lock")).unwrap();
    std::os::unix::fs::symlink("nowhere", locks.join("name:link.lock")).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        locks.join("name:pipe.lock"),
        rustix::fs::Mode::RUSR,
    )
    .unwrap();
    let listed = run(store.list(&Query::default())).unwrap().held;
    let listed: Vec<_> = listed.into_iter().map(|lease| lease.lease).collect();
    assert_eq!(listed, [request.lease]);
}

#[test]
fn a_query_for_a_resource_a_prefix_or_an_owner_finds_just_that() {
    let stage = Stage::new();
    let store = open(&stage);
    for (number, name) in ["map:atlas/m1", "map:atlas/m2", "map:b", "build"]
        .iter()
        .enumerate()
    {
        run(acquire(
            &store,
            &numbered(number, Resource::parse(name).unwrap()),
        ))
        .unwrap();
    }
    let count = |query: Query| run(store.list(&query)).unwrap().held.len();
    let resource = Resource::parse("build").unwrap();
    assert_eq!(count(Query::default().with_resource(resource)), 1);
    assert_eq!(count(Query::default().with_prefix("map:atlas/")), 2);
    let owner = "ana@desk".parse().unwrap();
    assert_eq!(count(Query::default().with_owner(owner)), 4);
    let owner = "bob@desk".parse().unwrap();
    assert_eq!(count(Query::default().with_owner(owner)), 0);
}

#[test]
fn a_lease_this_store_does_not_hold_is_over() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let held = run(acquire(&one, &request("l1", "build", Mode::Upgradeable)))
        .unwrap()
        .lease;
    for error in [
        run(two.renew(&held)).err().unwrap(),
        run(two.release(&held)).err().unwrap(),
        run(two.upgrade(&upgrade_of(&held))).err().unwrap(),
        run(try_upgrade(&two, &held)).err().unwrap(),
        run(two.downgrade(&held)).err().unwrap(),
        two.descriptor(&held).err().unwrap(),
    ] {
        assert_eq!(error.class(), Class::NotAllowed, "{error}");
    }
    two.abandon(&held);
    run(one.renew(&held)).unwrap();
}

#[test]
fn a_store_opened_by_another_spelling_of_its_path_is_the_same() {
    let stage = Stage::new();
    let one = open(&stage);
    fs::create_dir(stage.at("beside")).unwrap();
    let roundabout = stage.at("beside").join("../store/.");
    let two = FileStore::open(&roundabout, false).unwrap();
    run(acquire(&one, &request("l1", "build", Mode::Write))).unwrap();
    assert!(
        run(try_acquire(&two, &request("l2", "build", Mode::Read)))
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_renewed_lease_shows_a_later_heartbeat_and_the_same_grant() {
    let stage = Stage::new();
    let store = open(&stage);
    let granted = run(acquire(&store, &request("l1", "build", Mode::Write))).unwrap();
    crate::stage::until("a later heartbeat", || {
        run(store.renew(&granted.lease)).unwrap();
        let listed = run(store.list(&Query::default())).unwrap().held.remove(0);
        assert_eq!(
            (listed.acquired_at, listed.token),
            (granted.acquired_at, granted.token)
        );
        listed.heartbeat_at > granted.heartbeat_at
    });
}

#[test]
fn the_current_token_is_read_while_others_hold_the_lock() {
    let stage = Stage::new();
    let (one, two) = (open(&stage), open(&stage));
    let first = request("l1", "build", Mode::Write);
    assert_eq!(run(two.token(&first.resource)).unwrap(), None);
    let held = run(acquire(&one, &first)).unwrap();
    assert_eq!(run(two.token(&first.resource)).unwrap(), Some(held.token));
    run(one.release(&held.lease)).unwrap();
    assert_eq!(run(two.token(&first.resource)).unwrap(), Some(held.token));
    let reader = run(acquire(&one, &request("l2", "build", Mode::Read))).unwrap();
    assert_eq!(run(two.token(&first.resource)).unwrap(), Some(held.token));
    run(one.release(&reader.lease)).unwrap();
    let later = run(acquire(&one, &request("l3", "build", Mode::Write))).unwrap();
    assert!(later.token > held.token);
    assert_eq!(run(two.token(&first.resource)).unwrap(), Some(later.token));
}

#[test]
fn a_capacity_is_refused_and_the_store_named() {
    let stage = Stage::new();
    let store = open(&stage);
    let counted = Request {
        capacity: Some(2),
        ..request("l1", "slot:build", Mode::Write)
    };
    for error in [
        run(try_acquire(&store, &counted)).err().unwrap(),
        run(acquire(&store, &counted)).err().unwrap(),
    ] {
        assert_eq!(error.class(), Class::Configuration, "{error}");
        assert!(error.to_string().contains(store.url()), "{error}");
    }
}
