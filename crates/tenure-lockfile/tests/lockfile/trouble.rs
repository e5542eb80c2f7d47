//! File systems that refuse. Some tests need root, for mounts and to become another user; without
//! root, a user namespace will do.

use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::ptr;

use tenure_core::{Class, Error, Mode};
use tenure_lockfile::{FileStore, holders};

use crate::process::alone;
use crate::stage::{ProcessResources, Stage, patient};
use crate::task::{acquire, request, run, try_acquire};

const NOBODY: libc::uid_t = 65534;

/// A user whom file modes restrict: while this lives the process is `nobody`, if it was root.
pub struct Nobody(());

impl Nobody {
    pub fn new() -> Self {
        // SAFETY: no pointers. Root stays the saved user, so that it can be undone.
        let result = unsafe { libc::setresuid(NOBODY, NOBODY, 0) };
        // A process that is not root can change nothing here, and need not.
        assert!(result == 0 || !rustix::process::getuid().is_root());
        Self(())
    }

    /// Becomes `nobody`, and lets that user write in the directory of the stage.
    pub fn who_may_use(stage: &Stage) -> Self {
        fs::set_permissions(stage.path(), Permissions::from_mode(0o777)).unwrap();
        Self::new()
    }
}

impl Drop for Nobody {
    fn drop(&mut self) {
        // SAFETY: no pointers. The call fails in a process that was not root before.
        unsafe { libc::setresuid(0, 0, 0) };
    }
}

/// Keeps this process from starting threads from now on. Root could still start them.
pub fn forbid_new_threads() {
    let limit = libc::rlimit {
        rlim_cur: 1,
        rlim_max: 1,
    };
    // SAFETY: `limit` is valid for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &limit) }, 0);
    let started = std::thread::Builder::new().spawn(|| ());
    assert!(started.is_err(), "a thread could be started");
}

/// A mount that only this process sees, and that ends with it.
struct Mount(CString);

impl Mount {
    /// Mounts a small file system in memory.
    fn memory(at: &Path, size: &str) -> Self {
        private_mounts();
        let at = CString::new(at.as_os_str().as_bytes()).unwrap();
        let options = CString::new(format!("size={size}")).unwrap();
        // SAFETY: all pointers are to strings that live longer than the call.
        let result = unsafe {
            libc::mount(
                c"t".as_ptr(),
                at.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        };
        assert_eq!(result, 0, "mount: {}", std::io::Error::last_os_error());
        Self(at)
    }

    fn make_read_only(&self) {
        let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        // SAFETY: the path lives longer than the call; a remount reads nothing else.
        let result = unsafe {
            libc::mount(
                ptr::null(),
                self.0.as_ptr(),
                ptr::null(),
                flags,
                ptr::null(),
            )
        };
        assert_eq!(result, 0, "remount: {}", std::io::Error::last_os_error());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // SAFETY: the path lives longer than the call.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

fn private_mounts() {
    let root = rustix::process::geteuid().is_root();
    let own = if root {
        libc::CLONE_NEWNS
    } else {
        libc::CLONE_NEWNS | libc::CLONE_NEWUSER
    };
    // SAFETY: no pointers.
    let result = unsafe { libc::unshare(own) };
    let error = std::io::Error::last_os_error();
    assert_eq!(
        result, 0,
        "mounts need root or user namespaces, run as root: {error}"
    );
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the strings are constants.
    let result =
        unsafe { libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), flags, ptr::null()) };
    assert_eq!(result, 0, "mount: {}", std::io::Error::last_os_error());
}

/// Fills a file system to the last byte; removing the file makes room again.
fn fill(directory: &Path) -> PathBuf {
    let path = directory.join("filler");
    let mut file = File::create(&path).unwrap();
    let error = loop {
        if let Err(error) = file.write_all(&[1; 4096]) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    path
}

fn kind_of(error: &Error) -> ErrorKind {
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    match error {
        Error::Io { source, .. } => source.kind(),
        _ => panic!("{error}"),
    }
}

#[test]
fn a_directory_without_write_permission_is_refused_with_a_way_out() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        drop(patient().lock_exclusive(&stage.at("root's.lock")).unwrap());
        fs::set_permissions(stage.path(), Permissions::from_mode(0o555)).unwrap();
        fs::set_permissions(stage.at("root's.lock"), Permissions::from_mode(0o444)).unwrap();
        let nobody = Nobody::new();
        for path in [&path, &stage.at("root's.lock")] {
            let error = patient().lock_exclusive(path).err().unwrap();
            assert_eq!(kind_of(&error), ErrorKind::PermissionDenied);
            assert!(
                error.remedy().to_string().contains("write access"),
                "{}",
                error.remedy()
            );
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
            assert!(patient().try_lock_shared(path).is_err());
        }
        assert_eq!(
            holders(&stage.at("root's.lock")).unwrap(),
            [],
            "who may read may look"
        );
        let error = FileStore::open(&stage.at("store"), false).err().unwrap();
        assert_eq!(kind_of(&error), ErrorKind::PermissionDenied);
        drop(nobody);
        fs::set_permissions(stage.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(!path.exists() && !stage.at("store").exists());
    });
}

#[test]
fn a_read_only_mount_is_refused_and_can_be_looked_at() {
    alone(|| {
        let stage = Stage::new();
        let mount = Mount::memory(stage.path(), "1m");
        let store = FileStore::open(&stage.at("store"), false).unwrap();
        let path = stage.lock();
        drop(patient().lock_exclusive(&path).unwrap());
        mount.make_read_only();
        for path in [&path, &stage.at("new.lock")] {
            let error = patient().lock_exclusive(path).err().unwrap();
            assert_eq!(kind_of(&error), ErrorKind::ReadOnlyFilesystem, "{error}");
            assert!(
                error.remedy().to_string().contains("another place"),
                "{}",
                error.remedy()
            );
        }
        assert_eq!(holders(&path).unwrap(), []);
        let wanted = request("l1", "build", Mode::Write);
        let error = run(try_acquire(&store, &wanted)).err().unwrap();
        assert_eq!(kind_of(&error), ErrorKind::ReadOnlyFilesystem, "{error}");
        let error = FileStore::open(&stage.at("other"), false).err().unwrap();
        assert_eq!(kind_of(&error), ErrorKind::ReadOnlyFilesystem, "{error}");
    });
}

#[test]
fn a_full_disk_is_refused_and_leaves_nothing_held() {
    alone(|| {
        let stage = Stage::new();
        let _mount = Mount::memory(stage.path(), "128k");
        let (path, held_path) = (stage.lock(), stage.at("held.lock"));
        let store = FileStore::open(&stage.at("store"), false).unwrap();
        let locker = patient();
        let held = locker.lock_exclusive(&held_path).unwrap();
        let filler = fill(stage.path());
        let before = ProcessResources::count();
        let wanted = request("l1", "build", Mode::Write);
        for mode in [Mode::Write, Mode::Read, Mode::Upgradeable] {
            let error = locker.lock(&path, mode).err().unwrap();
            assert_eq!(kind_of(&error), ErrorKind::StorageFull, "{error}");
            assert!(
                error.remedy().to_string().contains("free some disk space"),
                "{}",
                error.remedy()
            );
            assert!(locker.try_lock(&path, mode).is_err());
            let error = run(acquire(&store, &wanted)).err().unwrap();
            assert_eq!(kind_of(&error), ErrorKind::StorageFull, "{error}");
        }
        assert_eq!(holders(&path).unwrap(), []);
        before.until_no_more_than_before();
        held.check().unwrap();
        assert!(patient().try_lock_exclusive(&held_path).unwrap().is_none());
        held.release().unwrap();
        let again = patient().try_lock_exclusive(&held_path).unwrap();
        assert!(
            again.is_some(),
            "a lock file that has its room needs no more"
        );
        fs::remove_file(filler).unwrap();
        assert!(patient().try_lock_exclusive(&path).unwrap().is_some());
        assert!(run(try_acquire(&store, &wanted)).unwrap().is_some());
        let rest = fs::read_dir(stage.at("store"))
            .unwrap()
            .map(|e| e.unwrap().file_name());
        let rest: Vec<_> = rest
            .filter(|name| name.to_string_lossy().ends_with(".tmp"))
            .collect();
        assert!(rest.is_empty(), "{rest:?}");
    });
}

#[test]
fn an_upgrade_on_a_full_disk_leaves_it_upgradeable() {
    alone(|| {
        let stage = Stage::new();
        let _mount = Mount::memory(stage.path(), "64k");
        let path = stage.lock();
        // A lock file whose first page was never written needs room for that page.
        let mut guard = patient().lock_upgradeable(&path).unwrap();
        let before = guard.lease();
        let filler = fill(stage.path());
        assert_eq!(
            kind_of(&guard.try_upgrade().err().unwrap()),
            ErrorKind::StorageFull
        );
        assert!(guard.upgrade(crate::stage::LONG).is_err());
        fs::remove_file(filler).unwrap();
        assert_eq!((guard.mode(), guard.token()), (before.mode, before.token));
        let lease = guard.lease();
        assert_eq!((lease.mode, lease.token), (before.mode, before.token));
        assert_eq!(holders(&path).unwrap()[0].mode, Mode::Upgradeable);
        assert!(patient().try_lock_upgradeable(&path).unwrap().is_none());
        assert!(
            patient().try_lock_shared(&path).unwrap().is_some(),
            "readers can come again"
        );
        assert!(guard.try_upgrade().unwrap().is_some());
    });
}

#[test]
fn a_missing_directory_is_told_and_not_made() {
    let stage = Stage::new();
    let path = stage.at("missing/.data.lock");
    for result in [
        patient().lock_exclusive(&path),
        patient().lock_shared(&path),
    ] {
        let error = result.err().unwrap();
        assert_eq!(kind_of(&error), ErrorKind::NotFound);
        assert!(
            error.remedy().to_string().contains("create the directory"),
            "{}",
            error.remedy()
        );
    }
    let trusting = patient().trusting_the_file_system();
    let error = trusting.try_lock_exclusive(&path).err().unwrap();
    assert_eq!(kind_of(&error), ErrorKind::NotFound);
    assert_eq!(
        fs::read_dir(stage.path()).unwrap().count(),
        0,
        "nothing was made"
    );
}

#[test]
fn a_file_in_the_place_of_a_directory_is_told() {
    let stage = Stage::new();
    fs::write(stage.at("file"), "").unwrap();
    let error = patient()
        .lock_exclusive(&stage.at("file/x.lock"))
        .err()
        .unwrap();
    assert_eq!(kind_of(&error), ErrorKind::NotADirectory);
    assert!(FileStore::open(&stage.at("file"), false).is_err());
}

#[test]
fn a_file_system_that_is_not_known_to_lock_is_refused_unless_trusted() {
    let path = Path::new("/proc/self/x.lock");
    let error = patient().lock_exclusive(path).err().unwrap();
    assert_eq!(error.class(), Class::Configuration, "{error}");
    assert!(error.to_string().contains("/proc/self"), "{error}");
    let trusting = patient().trusting_the_file_system();
    let error = trusting.lock_exclusive(path).err().unwrap();
    assert_eq!(
        error.class(),
        Class::Unreachable,
        "only the file system itself refuses: {error}"
    );
}

#[test]
fn when_no_descriptor_is_left_it_is_told_and_nothing_is_held() {
    alone(|| {
        let stage = Stage::new();
        let path = stage.lock();
        let locker = patient();
        let limit = libc::rlimit {
            rlim_cur: 32,
            rlim_max: 32,
        };
        // SAFETY: `limit` is valid for the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        let mut guards = Vec::new();
        let error = loop {
            match locker.lock_shared(&path) {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        assert!(guards.len() > 8, "{error}");
        assert_eq!(error.class(), Class::Unreachable, "{error}");
        drop(guards);
        assert_eq!(holders(&path).unwrap(), []);
        assert!(locker.try_lock_exclusive(&path).unwrap().is_some());
    });
}
