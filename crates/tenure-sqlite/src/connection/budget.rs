//! No statement steps over more than [`ROWS_MAX`] rows.
//!
//! SQLite counts the rows each statement steps over, and asks a handler of ours every
//! [`CHECK_EVERY`] instructions whether to go on. A statement that finds its rows by an index
//! ends long before the first question, so the budget costs it nothing. The question is
//! coarse: a statement is stopped at most [`CHECK_EVERY`] instructions after its budget ran out.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use rusqlite::{Connection, ffi};

/// The most rows a statement may step over.
pub(crate) const ROWS_MAX: usize = 50_000;

/// How many instructions SQLite runs between two questions.
const CHECK_EVERY: i32 = 1000;

/// The counter of steps along an index or a range of rows. It stands beside the documented one
/// for whole tables, without a name of its own; a test pins that it counts.
const STEPS_IN_RANGES: i32 = 0;

/// The budget of the statement that is running.
///
/// Only ever used by the thread that has the connection: the atomics are there because SQLite's
/// handler must be able to move between threads, not because two use it at once.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// What the counters said when the budget was first asked about; below 0 if not yet.
    before: AtomicI64,
    limited: AtomicBool,
    exceeded: AtomicBool,
}

impl Budget {
    /// Puts every statement of a connection under the budget.
    pub(crate) fn install(connection: &mut Connection) -> rusqlite::Result<Arc<Budget>> {
        let budget = Arc::new(Budget::default());
        let asked = Arc::clone(&budget);
        // SAFETY: the pointer is used by the handler only, which SQLite calls only from a
        // statement of this very connection.
        let connection_pointer = unsafe { connection.handle() } as usize;
        connection.progress_handler(
            CHECK_EVERY,
            Some(move || asked.is_used_up(connection_pointer as *mut ffi::sqlite3)),
        )?;
        Ok(budget)
    }

    /// A statement begins.
    pub(crate) fn begin(&self, limited: bool) {
        self.limited.store(limited, Ordering::Relaxed);
        self.before.store(-1, Ordering::Relaxed);
        self.exceeded.store(false, Ordering::Relaxed);
    }

    /// A statement has ended; whether it was stopped for want of budget.
    pub(crate) fn end(&self) -> bool {
        self.limited.store(false, Ordering::Relaxed);
        self.exceeded.load(Ordering::Relaxed)
    }

    fn is_used_up(&self, connection: *mut ffi::sqlite3) -> bool {
        if !self.limited.load(Ordering::Relaxed) {
            return false;
        }
        let stepped = rows_stepped_over(connection);
        let before = self.before.load(Ordering::Relaxed);
        if before < 0 {
            self.before.store(stepped, Ordering::Relaxed);
            return false;
        }
        let used_up = stepped - before > ROWS_MAX as i64;
        if used_up {
            self.exceeded.store(true, Ordering::Relaxed);
        }
        used_up
    }
}

/// How many rows the running statement has ever stepped over.
fn rows_stepped_over(connection: *mut ffi::sqlite3) -> i64 {
    let mut rows = 0;
    // SAFETY: SQLite calls the handler inside a statement of this connection, in the thread that
    // runs it. The statements of a connection may be listed and their counters read then;
    // none is prepared or finalised meanwhile.
    unsafe {
        let mut statement = ffi::sqlite3_next_stmt(connection, ptr::null_mut());
        while !statement.is_null() {
            if ffi::sqlite3_stmt_busy(statement) != 0 {
                let counter = |which| i64::from(ffi::sqlite3_stmt_status(statement, which, 0));
                rows += counter(STEPS_IN_RANGES) + counter(ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP);
            }
            statement = ffi::sqlite3_next_stmt(connection, statement);
        }
    }
    rows
}
