use std::os::unix::fs::PermissionsExt;

use super::*;

fn id(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

struct Stage {
    _root: tempfile::TempDir,
    directory: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("sessions");
        Self {
            _root: root,
            directory,
        }
    }

    fn begin(&self, name: &str) -> SessionFile {
        SessionFile::begin(&self.directory, &id(name)).unwrap()
    }

    fn prove(&self, name: &str, recorded: FileIdentity) -> Proof {
        let boot_id = clock::boot_id().unwrap();
        prove(&self.directory, &id(name), recorded, boot_id).unwrap()
    }
}

#[test]
fn a_session_is_alive_until_its_last_descriptor_closes() {
    let stage = Stage::new();
    let session = stage.begin("s");
    let place = session.identity();
    assert_eq!(stage.prove("s", place), Proof::Alive);
    let inherited = session.descriptor().unwrap();
    drop(session);
    assert_eq!(stage.prove("s", place), Proof::Alive);
    drop(inherited);
    assert_eq!(stage.prove("s", place), Proof::Dead);
}

#[test]
fn its_files_are_for_its_owner_only() {
    let stage = Stage::new();
    let _session = stage.begin("s");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&stage.directory), 0o700);
    assert_eq!(mode(&stage.directory.join("s")), 0o600);
}

#[test]
fn another_boot_is_death_whatever_the_file() {
    let stage = Stage::new();
    let session = stage.begin("s");
    let recorded = session.identity();
    let proof = prove(&stage.directory, &id("s"), recorded, "another-boot");
    assert_eq!(proof.unwrap(), Proof::Dead);
}

#[test]
fn a_file_that_is_gone_or_another_proves_nothing() {
    let stage = Stage::new();
    let session = stage.begin("s");
    let place = session.identity();
    let path = stage.directory.join("s");
    fs::copy(&path, stage.directory.join("copy")).unwrap();
    fs::rename(stage.directory.join("copy"), &path).unwrap();
    assert_eq!(stage.prove("s", place), Proof::Unknown);
    assert!(!session.is_in_place());
    fs::remove_file(&path).unwrap();
    assert_eq!(stage.prove("s", place), Proof::Unknown);
    fs::remove_dir_all(&stage.directory).unwrap();
    assert_eq!(stage.prove("s", place), Proof::Unknown);
    fs::write(&stage.directory, "a file").unwrap();
    assert_eq!(stage.prove("s", place), Proof::Unknown);
}

#[test]
fn a_link_in_place_of_the_file_proves_nothing() {
    let stage = Stage::new();
    let session = stage.begin("s");
    let path = stage.directory.join("s");
    fs::rename(&path, stage.directory.join("moved")).unwrap();
    std::os::unix::fs::symlink("moved", &path).unwrap();
    assert_eq!(stage.prove("s", session.identity()), Proof::Unknown);
}

#[test]
fn two_who_look_do_not_take_each_other_for_alive() {
    let stage = Stage::new();
    let session = stage.begin("s");
    let place = session.identity();
    drop(session);
    let first = look(&stage.directory.join("s")).unwrap();
    assert!(matches!(first, FileState::Free(..)));
    assert_eq!(stage.prove("s", place), Proof::Dead);
}

#[test]
fn a_session_begins_although_others_look_and_clear_up_all_the_time() {
    let stage = Stage::new();
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    for session in dead(&stage.directory, 10).unwrap() {
                        remove_if_dead(&stage.directory, &session, || {}).unwrap();
                    }
                }
            });
        }
        for round in 0..300 {
            let name = format!("s{round}");
            let session = stage.begin(&name);
            assert!(session.is_in_place());
            assert_eq!(stage.prove(&name, session.identity()), Proof::Alive);
            session.end();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_a_crash_left_is_begun_anew_and_what_is_alive_is_not_taken() {
    let stage = Stage::new();
    drop(stage.begin("s"));
    let session = stage.begin("s");
    let error = SessionFile::begin(&stage.directory, &id("s")).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    session.end();
    assert!(!stage.directory.join("s").exists());
}

#[test]
fn only_the_living_are_counted_and_only_the_dead_are_buried() {
    let stage = Stage::new();
    assert_eq!(count_alive(&stage.directory).unwrap(), 0);
    let _one = stage.begin("one");
    let _two = stage.begin("two");
    drop(stage.begin("three"));
    assert_eq!(count_alive(&stage.directory).unwrap(), 2);
    assert_eq!(dead(&stage.directory, 10).unwrap(), [id("three")]);
    assert!(!remove_if_dead(&stage.directory, &id("one"), || {}).unwrap());
    assert!(remove_if_dead(&stage.directory, &id("three"), || {}).unwrap());
    assert!(
        remove_if_dead(&stage.directory, &id("three"), || {}).unwrap(),
        "twice is no fault"
    );
    assert!(dead(&stage.directory, 10).unwrap().is_empty());
}

#[test]
fn what_else_the_dead_left_goes_before_their_file_and_of_the_living_nothing_goes() {
    let stage = Stage::new();
    let path = stage.directory.join("s");
    let session = stage.begin("s");
    let removed = remove_if_dead(&stage.directory, &id("s"), || panic!("it is alive"));
    assert!(!removed.unwrap() && path.exists());
    drop(session);
    let mut file_was_there = false;
    remove_if_dead(&stage.directory, &id("s"), || {
        file_was_there = path.exists()
    })
    .unwrap();
    assert!(file_was_there && !path.exists());
}
