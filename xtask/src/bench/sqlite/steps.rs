//! A tenth of the benchmark's size, without a clock: SQLite counts the steps of its own machine for
//! every statement, and those must not depend on the number of leases.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Once;

use rusqlite::ffi;
use tenure::{Owner, Query};

use super::fill::fill;
use super::size::after;
use crate::bench::program::{Program, free_names, sqlite};

const LEASES: u32 = 100_000;

thread_local! {
    /// The steps of all statements that ended in this thread.
    static STEPS: Cell<i64> = const { Cell::new(0) };
}

/// Counts the steps of every connection that is opened in this process from now on. The connections
/// inside the store count, too: it uses this SQLite.
fn count_steps() {
    static ONCE: Once = Once::new();
    // SAFETY: the function is of the kind SQLite calls for every new connection.
    ONCE.call_once(|| unsafe {
        assert_eq!(ffi::sqlite3_auto_extension(Some(on_open)), ffi::SQLITE_OK);
    });
}

unsafe extern "C" fn on_open(
    connection: *mut ffi::sqlite3,
    _problem: *mut *mut c_char,
    _routines: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the connection is the one that is being opened; the callback needs nothing else.
    unsafe {
        let ended = ffi::SQLITE_TRACE_PROFILE as c_uint;
        ffi::sqlite3_trace_v2(connection, ended, Some(on_end), ptr::null_mut())
    }
}

unsafe extern "C" fn on_end(
    _event: c_uint,
    _context: *mut c_void,
    statement: *mut c_void,
    _nanoseconds: *mut c_void,
) -> c_int {
    // SAFETY: for this event the argument is the statement that has just ended.
    let steps = unsafe {
        let statement = statement.cast::<ffi::sqlite3_stmt>();
        ffi::sqlite3_stmt_status(statement, ffi::SQLITE_STMTSTATUS_VM_STEP, 1)
    };
    STEPS.set(STEPS.get() + i64::from(steps));
    0
}

/// Returns the steps of some work in this thread.
fn steps_of(work: impl FnOnce()) -> i64 {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}

fn store(directory: &Path, leases: u32) -> Program {
    count_steps();
    let database = directory.join(format!("{leases}/tenure.db"));
    fill(&database, leases).unwrap();
    Program::open(&sqlite(&database)).unwrap()
}

#[test]
fn neither_acquire_and_release_nor_a_page_takes_more_steps_with_100_000_leases() {
    println!("100,000 leases, a tenth of what `cargo xtask bench sqlite` times");
    let directory = tempfile::tempdir().unwrap();
    let few = store(directory.path(), 4_000);
    let many = store(directory.path(), LEASES);

    let names = free_names(20).unwrap();
    let each = |program: &Program| {
        // Statements are prepared by the first use.
        program.acquire_and_release_each(&names).unwrap();
        steps_of(|| program.acquire_and_release_each(&names).unwrap())
    };
    let (with_few, with_many) = (each(&few), each(&many));
    assert!(with_few > 0, "nothing was counted");
    assert!(
        with_many <= with_few * 3 / 2,
        "acquire + release: {with_many} steps, {with_few} with few leases"
    );

    let page = |program: &Program, query: &Query| {
        let rows = program.list(query).unwrap().held.len();
        let steps = steps_of(|| drop(program.list(query).unwrap()));
        assert!(rows >= 50, "a page of {rows}");
        steps / i64::try_from(rows).unwrap()
    };
    let of_owners = |program: &Program| {
        let owner = Owner::parse("agent:claude-1").unwrap();
        let one = Query::default().with_owner(owner.clone()).held_only();
        let several = Query::default().with_owners([owner]).held_only();
        let look = || {
            assert!(program.list(&one).unwrap().held.is_empty());
            assert!(program.list(&several).unwrap().held.is_empty());
        };
        look();
        steps_of(look)
    };
    let (with_few, with_many) = (of_owners(&few), of_owners(&many));
    assert_eq!(with_few, with_many, "the leases of owners");
    let least = page(&few, &Query::default());
    let first = page(&many, &Query::default());
    let in_the_middle = after(&many, LEASES as usize / 2).unwrap();
    let middle = page(&many, &in_the_middle);
    let within = in_the_middle.with_prefix("item:5");
    let prefix = page(&many, &within);
    assert!(
        [first, middle, prefix]
            .iter()
            .all(|steps| *steps <= least * 2),
        "steps a lease: {least} with few; first {first}, middle {middle}, in a prefix {prefix}"
    );
}
