//! The length of SQLite's log.
//!
//! Folding the log back into the database costs two syncs, so a process at work lets it grow. But
//! the first process that opens a database reads the whole log, and a command that runs for a
//! moment does so every time. A process that closes therefore leaves a short log. It has to be
//! emptied for that, as the file does not say how much of it is folded.
//!
//! Folding changes nothing that a reader can see. If it fails, or is left out by a crash, the log
//! is longer until the next time.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::{Connection, ffi};

/// The number of pages at which a commit folds the log.
const AT_WORK_PAGES: c_int = 2000;
/// The number of pages at which a close folds the log.
const AT_CLOSE_PAGES: c_int = 64;

/// The length of the log, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Its pages at the last commit of this connection.
    pages: AtomicI32,
}

impl Log {
    /// Takes the decision when to fold from SQLite. The log must be kept for as long as the
    /// connection.
    pub(super) fn watch(connection: &Connection) -> Arc<Log> {
        let log = Arc::new(Log::default());
        let pointer = Arc::as_ptr(&log).cast_mut().cast::<c_void>();
        // SAFETY: the connection is open. SQLite calls `committed` with the pointer only from a
        // commit of this connection, which the caller closes before it drops the log.
        unsafe { ffi::sqlite3_wal_hook(connection.handle(), Some(committed), pointer) };
        log
    }

    /// Leaves a short log behind. To be called when the connection is about to be closed.
    pub(super) fn shorten(&self, connection: &Connection) {
        if self.pages.load(Ordering::Relaxed) >= AT_CLOSE_PAGES {
            // SAFETY: the connection is open, and no statement of it is running.
            unsafe { fold(connection.handle(), ffi::SQLITE_CHECKPOINT_TRUNCATE) };
        }
    }
}

unsafe extern "C" fn committed(
    log: *mut c_void,
    connection: *mut ffi::sqlite3,
    _name: *const c_char,
    pages: c_int,
) -> c_int {
    // SAFETY: the pointer is that of `watch`, and the log lives as long as the connection.
    let log = unsafe { &*log.cast::<Log>() };
    log.pages.store(pages, Ordering::Relaxed);
    if pages >= AT_WORK_PAGES {
        // SAFETY: SQLite allows it here, after the commit; its own handler does the same.
        unsafe { fold(connection, ffi::SQLITE_CHECKPOINT_PASSIVE) };
    }
    // Anything else would make a commit that is done look like one that failed.
    ffi::SQLITE_OK
}

/// Folds as much as it can without waiting for another connection, in one of SQLite's ways.
///
/// # Safety
///
/// The connection is open and used by no other thread.
unsafe fn fold(connection: *mut ffi::sqlite3, mode: c_int) {
    let none = ptr::null_mut();
    // SAFETY: the connection is open; the name ends with a zero; the counts are not asked for.
    unsafe { ffi::sqlite3_wal_checkpoint_v2(connection, c"main".as_ptr(), mode, none, none) };
}
