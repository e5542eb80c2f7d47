//! The write transactions of a thread, as SQLite itself tells of each statement that it runs.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Once;

use rusqlite::auto_extension::register_auto_extension;
use rusqlite::ffi;

/// The end of a write transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was committed, and may be lost with the power.
    Committed,
    /// It was committed, and is on disk.
    Durable,
    /// It was rolled back.
    RolledBack,
}

thread_local! {
    /// True while commits of this thread wait for the disk. Each test has one connection.
    static WAITS_FOR_DISK: Cell<bool> = const { Cell::new(false) };
    static WRITES: Cell<bool> = const { Cell::new(false) };
    static ENDS: RefCell<Vec<End>> = const { RefCell::new(Vec::new()) };
}

/// Follows every connection that is opened from now on.
pub fn follow() {
    static FOLLOWED: Once = Once::new();
    FOLLOWED.call_once(|| {
        // SAFETY: `opened` neither opens nor closes a database, and leaves the list as it is.
        unsafe { register_auto_extension(opened) }.unwrap();
    });
}

/// Returns the ends of this thread's write transactions since the last call.
pub fn ends() -> Vec<End> {
    ENDS.take()
}

unsafe extern "C" fn opened(
    connection: *mut ffi::sqlite3,
    _message: *mut *mut c_char,
    _api: *const ffi::sqlite3_api_routines,
) -> c_int {
    let events = ffi::SQLITE_TRACE_STMT;
    // SAFETY: the connection is open, and `ran` uses no context.
    unsafe { ffi::sqlite3_trace_v2(connection, events, Some(ran), ptr::null_mut()) }
}

unsafe extern "C" fn ran(
    _event: c_uint,
    _context: *mut c_void,
    _statement: *mut c_void,
    text: *mut c_void,
) -> c_int {
    // SAFETY: SQLite gives the text of the statement, which ends with a zero.
    let text = unsafe { CStr::from_ptr(text.cast::<c_char>()) };
    match text.to_str() {
        Ok("PRAGMA synchronous = FULL") => WAITS_FOR_DISK.set(true),
        Ok("PRAGMA synchronous = NORMAL") => WAITS_FOR_DISK.set(false),
        Ok("BEGIN IMMEDIATE") => WRITES.set(true),
        Ok("COMMIT") if WAITS_FOR_DISK.get() => ended(End::Durable),
        Ok("COMMIT") => ended(End::Committed),
        Ok("ROLLBACK") => ended(End::RolledBack),
        _ => {}
    }
    ffi::SQLITE_OK
}

fn ended(end: End) {
    // A transaction that only reads is not counted.
    if WRITES.replace(false) {
        ENDS.with_borrow_mut(|ends| ends.push(end));
    }
}
