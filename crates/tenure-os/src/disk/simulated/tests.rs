//! Tests of the claims of the simulated disk.

use super::*;
use std::collections::BTreeSet;

const DIRECTORY: &str = "/d";
const TARGET: &str = "/d/a";
const TEMPORARY: &str = "/d/t";

/// Returns a disk with a directory that holds `a`, which says `old`.
fn disk() -> SimulatedDisk {
    let mut state = State::default();
    state.add_directory(DIRECTORY);
    state.add_file(TARGET, b"old");
    SimulatedDisk::new(state, Fault::None)
}

/// Returns the contents that a name may have after a power loss now; `None` where it is gone.
fn after_power_loss(disk: &SimulatedDisk, path: &str) -> BTreeSet<Option<String>> {
    let mut found = BTreeSet::new();
    disk.state().after_power_loss(&mut |state| {
        let file = state.file(Path::new(path)).unwrap();
        found.insert(file.map(|file| String::from_utf8(file.bytes.clone()).unwrap()));
    });
    found
}

fn set<const N: usize>(contents: [Option<&str>; N]) -> BTreeSet<Option<String>> {
    contents.map(|content| content.map(str::to_owned)).into()
}

#[test]
fn a_new_file_that_was_not_synced_may_be_gone_empty_torn_or_whole() {
    let disk = disk();
    let mut file = disk.create(Path::new(TEMPORARY), 0o600).unwrap();
    file.write(b"word").unwrap();
    let expected = [
        None,
        Some(""),
        Some("wo"),
        Some("wor"),
        Some("\0\0\0\0"),
        Some("\0\0rd"),
        Some("word"),
    ];
    assert_eq!(after_power_loss(&disk, TEMPORARY), set(expected));
    assert_eq!(after_power_loss(&disk, TARGET), set([Some("old")]));
}

#[test]
fn a_synced_file_keeps_its_content_but_not_its_name() {
    let disk = disk();
    let mut file = disk.create(Path::new(TEMPORARY), 0o600).unwrap();
    file.write(b"word").unwrap();
    file.sync().unwrap();
    assert_eq!(
        after_power_loss(&disk, TEMPORARY),
        set([None, Some("word")])
    );
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    assert_eq!(after_power_loss(&disk, TEMPORARY), set([Some("word")]));
}

#[test]
fn a_synced_name_does_not_keep_its_content() {
    let disk = disk();
    let mut file = disk.create(Path::new(TEMPORARY), 0o600).unwrap();
    file.write(b"w").unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    let expected = set([Some(""), Some("\0"), Some("w")]);
    assert_eq!(after_power_loss(&disk, TEMPORARY), expected);
}

#[test]
fn a_rename_is_old_or_new_and_its_source_may_stay_or_go_with_either() {
    let disk = disk();
    let mut file = disk.create(Path::new(TEMPORARY), 0o600).unwrap();
    file.write(b"new").unwrap();
    file.sync().unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    disk.rename(Path::new(TEMPORARY), Path::new(TARGET))
        .unwrap();
    let mut found = BTreeSet::new();
    disk.state().after_power_loss(&mut |state| {
        let bytes = |path: &str| {
            let file = state.file(Path::new(path)).unwrap();
            file.map(|file| file.bytes.clone())
        };
        found.insert((bytes(TARGET), bytes(TEMPORARY)));
    });
    let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    let expected = [
        (old.clone(), new.clone()),
        (old, None),
        (new.clone(), new.clone()),
        (new, None),
    ];
    assert_eq!(found, BTreeSet::from(expected));
}

#[test]
fn a_removed_name_may_come_back_until_its_directory_is_synced() {
    let disk = disk();
    disk.remove(Path::new(TARGET)).unwrap();
    assert_eq!(after_power_loss(&disk, TARGET), set([None, Some("old")]));
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    assert_eq!(after_power_loss(&disk, TARGET), set([None]));
}

#[test]
fn directories_are_independent() {
    let mut state = State::default();
    state.add_directory("/d");
    state.add_directory("/e");
    state.add_file("/d/a", b"old");
    state.add_file("/e/b", b"old");
    let disk = SimulatedDisk::new(state, Fault::None);
    disk.remove(Path::new("/d/a")).unwrap();
    disk.remove(Path::new("/e/b")).unwrap();
    disk.sync_directory(Path::new("/e")).unwrap();
    assert_eq!(after_power_loss(&disk, "/d/a"), set([None, Some("old")]));
    assert_eq!(after_power_loss(&disk, "/e/b"), set([None]));
}

#[test]
fn an_ignored_sync_keeps_nothing_and_the_next_one_does() {
    let mut state = State::default();
    state.add_directory(DIRECTORY);
    let disk = SimulatedDisk::new(state, Fault::IgnoreSync(0));
    drop(disk.create(Path::new(TARGET), 0o600).unwrap());
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    assert_eq!(after_power_loss(&disk, TARGET), set([None, Some("")]));
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    assert_eq!(after_power_loss(&disk, TARGET), set([Some("")]));
    assert_eq!(disk.syncs(), 2);
}

#[test]
fn content_whose_sync_failed_is_not_saved_by_the_next_one() {
    let mut state = State::default();
    state.add_directory(DIRECTORY);
    let disk = SimulatedDisk::new(state, Fault::Fail(2, Errno::IO));
    let mut file = disk.create(Path::new(TARGET), 0o600).unwrap();
    file.write(b"x").unwrap();
    file.sync().unwrap_err();
    file.sync().unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    let expected = set([Some(""), Some("\0"), Some("x")]);
    assert_eq!(after_power_loss(&disk, TARGET), expected);
}

#[test]
fn a_write_that_fails_has_written_a_part() {
    let mut state = State::default();
    state.add_directory(DIRECTORY);
    let disk = SimulatedDisk::new(state, Fault::Fail(1, Errno::NOSPC));
    let mut file = disk.create(Path::new(TARGET), 0o600).unwrap();
    let error = file.write(b"1234").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let found = disk.read(Path::new(TARGET), 10).unwrap().unwrap();
    assert_eq!(found.bytes, b"12");
}

#[test]
fn every_state_between_two_operations_is_remembered() {
    let disk = disk();
    disk.remove(Path::new(TARGET)).unwrap();
    disk.read(Path::new(TARGET), 10).unwrap();
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    let done: Vec<usize> = disk.history().iter().map(|(done, _)| *done).collect();
    assert_eq!(done, [0, 1, 3]);
    assert_eq!(disk.operations().len(), 3);
}

#[test]
fn a_name_that_is_taken_is_neither_replaced_nor_linked() {
    let disk = disk();
    drop(disk.create(Path::new(TEMPORARY), 0o600).unwrap());
    let (from, to) = (Path::new(TEMPORARY), Path::new(TARGET));
    for refused in [
        disk.rename_without_replacing(from, to),
        disk.link(from, to),
        disk.make_directory(to),
    ] {
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
    assert_eq!(disk.read(to, 10).unwrap().unwrap().bytes, b"old");
    let free = Path::new("/d/b");
    disk.rename_without_replacing(from, free).unwrap();
    assert!(disk.exists(free).unwrap() && !disk.exists(from).unwrap());
}

#[test]
fn two_names_of_one_file_stay_one_file_and_may_be_lost_apart() {
    let disk = disk();
    let (one, other) = (Path::new(TARGET), Path::new("/d/b"));
    disk.link(one, other).unwrap();
    assert_eq!(disk.identity(one).unwrap(), disk.identity(other).unwrap());
    let mut linked = BTreeSet::new();
    disk.state().after_power_loss(&mut |state| {
        let disk = SimulatedDisk::without_history(state);
        linked.insert(disk.identity(one).unwrap() == disk.identity(other).unwrap());
    });
    assert_eq!(linked, BTreeSet::from([false, true]));
    disk.sync_directory(Path::new(DIRECTORY)).unwrap();
    disk.remove(one).unwrap();
    assert_eq!(after_power_loss(&disk, "/d/b"), set([Some("old")]));
}

#[test]
fn what_is_appended_is_torn_and_what_is_overwritten_is_mixed_until_it_is_synced() {
    let disk = disk();
    disk.append(Path::new(TARGET), b"++").unwrap();
    let expected = ["old", "old+", "old\0\0", "old\0+", "old++"];
    assert_eq!(after_power_loss(&disk, TARGET), set(expected.map(Some)));
    disk.sync_file(Path::new(TARGET)).unwrap();
    assert_eq!(after_power_loss(&disk, TARGET), set([Some("old++")]));
    disk.overwrite(Path::new(TARGET), b"new").unwrap();
    let expected = ["old++", "", "nld++", "new"];
    assert_eq!(after_power_loss(&disk, TARGET), set(expected.map(Some)));
    disk.append(Path::new("/d/log"), b"").unwrap();
    assert_eq!(after_power_loss(&disk, "/d/log"), set([None, Some("")]));
}

/// Returns the sets of directories that a power loss now may leave.
fn directories_after_power_loss(disk: &SimulatedDisk) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    disk.state().after_power_loss(&mut |state| {
        let paths = state.paths();
        found.insert(
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
        );
    });
    found
}

#[test]
fn directories_are_renamed_and_exchanged_whole_and_in_order() {
    let mut state = State::default();
    for directory in ["/d", "/d/one", "/d/two"] {
        state.add_directory(directory);
    }
    state.add_file("/d/one/a", b"");
    state.add_file("/d/two/b", b"");
    let disk = SimulatedDisk::new(state, Fault::None);
    let path = Path::new;
    disk.exchange(path("/d/one"), path("/d/two")).unwrap();
    disk.rename(path("/d/one"), path("/d/three")).unwrap();
    let look = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    let (before, exchanged) = (["/d/one/a", "/d/two/b"], ["/d/one/b", "/d/two/a"]);
    let renamed = ["/d/three/b", "/d/two/a"];
    let found = directories_after_power_loss(&disk);
    assert_eq!(found, [before, exchanged, renamed].map(look).into());
    disk.sync_directory(path("/d")).unwrap();
    let found = directories_after_power_loss(&disk);
    assert_eq!(found, [look(renamed)].into());
}

#[test]
fn a_directory_that_was_made_is_gone_with_what_is_in_it_or_there() {
    let disk = disk();
    disk.make_directory(Path::new("/d/new")).unwrap();
    drop(disk.create(Path::new("/d/new/a"), 0o600).unwrap());
    disk.sync_directory(Path::new("/d/new")).unwrap();
    assert!(disk.names(Path::new("/d")).unwrap().contains(&"new".into()));
    let look = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let found = directories_after_power_loss(&disk);
    assert_eq!(found, [look(&["/d/a"]), look(&["/d/a", "/d/new/a"])].into());
    disk.sync_directory(Path::new("/d")).unwrap();
    assert_eq!(directories_after_power_loss(&disk).len(), 1);
}

#[test]
fn the_real_disk_does_what_the_simulated_one_says() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let disk = super::super::RealDisk;
    disk.append(&at("a"), b"1").unwrap();
    disk.append(&at("a"), b"2").unwrap();
    disk.link(&at("a"), &at("b")).unwrap();
    disk.overwrite(&at("b"), b"3").unwrap();
    assert_eq!(disk.content(&at("a"), 10).unwrap().unwrap(), b"3");
    assert_eq!(
        disk.identity(&at("a")).unwrap(),
        disk.identity(&at("b")).unwrap()
    );
    let refused = disk.rename_without_replacing(&at("a"), &at("b"));
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    for name in ["one", "two"] {
        disk.make_directory(&at(name)).unwrap();
    }
    disk.rename_without_replacing(&at("a"), &at("one/a"))
        .unwrap();
    disk.exchange(&at("one"), &at("two")).unwrap();
    assert!(disk.exists(&at("two/a")).unwrap() && !disk.exists(&at("a")).unwrap());
}
