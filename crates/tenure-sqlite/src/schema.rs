//! The tables, and the migration of older databases.
//!
//! Each file in `schema/` is one step. `user_version` counts the steps a database has been
//! through, and `application_id` says that it is ours. All missing steps are made in one
//! transaction: a crash in between leaves the older database.

use std::path::Path;

use rusqlite::Connection;
use tenure_core::{Error, Result};

/// The steps, oldest first. A step that was released is never changed.
const STEPS: [&str; 9] = [
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
    include_str!("schema/0008.sql"),
    include_str!("schema/0009.sql"),
];

/// The step that has the text of the views.
const VIEWS_STEP: &str = STEPS[2];

/// The views for people, each after the kind of the records that it shows.
const VIEWS: [(&str, &str); 3] = [
    ("manifest", "manifests"),
    ("agent", "agents"),
    ("agent_turn", "turns"),
];

/// The version this Tenure writes.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// "Tenu" as a number.
pub(crate) const APPLICATION_ID: i64 = 0x5465_6e75;

/// The kind of database in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaState {
    /// An empty database.
    Empty,
    /// A database of ours that is older than this Tenure.
    Older(i64),
    /// A database of ours that is as new as this Tenure.
    Current,
    /// A database of ours that is newer than this Tenure.
    Newer(i64),
    /// A database of another program.
    Foreign,
}

/// Returns the kind of a database.
///
/// It reads in one transaction, and begins one if there is none: SQLite locks for each.
pub(crate) fn look(connection: &Connection) -> rusqlite::Result<SchemaState> {
    let _transaction = if connection.is_autocommit() {
        Some(connection.unchecked_transaction()?)
    } else {
        None
    };
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let version = number("PRAGMA user_version")?;
    let application_id = number("PRAGMA application_id")?;
    if application_id == APPLICATION_ID {
        return Ok(match version {
            VERSION => SchemaState::Current,
            newer if newer > VERSION => SchemaState::Newer(newer),
            older => SchemaState::Older(older),
        });
    }
    let objects = number("SELECT count(*) FROM sqlite_schema")?;
    Ok(match (application_id, version, objects) {
        (0, 0, 0) => SchemaState::Empty,
        _ => SchemaState::Foreign,
    })
}

/// Makes the steps after `version`. To be called inside a transaction.
pub(crate) fn migrate(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    let done = usize::try_from(version).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        connection.execute_batch(&without_comments(step))?;
    }
    for (kind, _) in VIEWS {
        let shown = "SELECT EXISTS (SELECT 1 FROM records WHERE kind = ?1)";
        if let Some(view) = view_of(kind)
            && connection.query_row(shown, [kind], |row| row.get(0))?
        {
            connection.execute_batch(&view)?;
        }
    }
    connection.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}"
    ))
}

/// Returns the statement that makes the view of the records of a kind, unless it is there. Only
/// people read it.
pub(crate) fn view_of(kind: &str) -> Option<String> {
    let (_, name) = VIEWS.into_iter().find(|(shown, _)| *shown == kind)?;
    let step = without_comments(VIEWS_STEP);
    let create = |statement: &str| {
        let columns = statement.trim().strip_prefix("CREATE VIEW ")?;
        let columns = columns.strip_prefix(name)?.strip_prefix(" AS ")?;
        Some(format!("CREATE VIEW IF NOT EXISTS {name} AS {columns}"))
    };
    step.split(';').find_map(create)
}

/// Returns a step without comments and layout: SQLite keeps the text of a table as it is, and reads
/// it whenever the database is opened.
fn without_comments(step: &str) -> String {
    let lines = step.lines().map(|line| {
        let code = line.split_once("--").map_or(line, |(code, _)| code);
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the error for a database that a newer Tenure made.
pub(crate) fn newer(path: &Path, version: i64) -> Error {
    Error::configuration(
        format!(
            "{} was made by a newer tenure: it has schema {version}, this one knows {VERSION}",
            path.display()
        ),
        "upgrade tenure, or choose another place with {.store}",
    )
}

/// Returns the error for a database of another program.
fn foreign(path: &Path) -> Error {
    Error::configuration(
        format!("{} is a database of another program", path.display()),
        "choose another place with {.store}",
    )
}

/// Returns true if steps are missing. Fails for a database that this Tenure cannot work with.
pub(crate) fn needs_work(path: &Path, found: SchemaState) -> Result<bool> {
    match found {
        SchemaState::Current => Ok(false),
        SchemaState::Empty | SchemaState::Older(_) => Ok(true),
        SchemaState::Newer(version) => Err(newer(path, version)),
        SchemaState::Foreign => Err(foreign(path)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Drops everything that the first step does not make, so that the database is as old as that.
    pub(crate) fn take_back_to_the_first_step(connection: &Connection) {
        let objects = |connection: &Connection| -> Vec<(String, String)> {
            let sql = "SELECT type, name FROM sqlite_schema WHERE type IN ('view', 'table') \
                       ORDER BY type DESC";
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
            rows.unwrap().map(|row| row.unwrap()).collect()
        };
        let first = Connection::open_in_memory().unwrap();
        first.execute_batch(STEPS[0]).unwrap();
        let first = objects(&first);
        for (kind, name) in objects(connection) {
            if !first.contains(&(kind.clone(), name.clone())) {
                let drop = format!("DROP {kind} {name}");
                connection.execute_batch(&drop).unwrap();
            }
        }
        let back = "DROP INDEX dal_locks_by_agent; \
             ALTER TABLE dal_locks DROP COLUMN grace_ms; \
             ALTER TABLE dal_locks DROP COLUMN agent; \
             ALTER TABLE waiters DROP COLUMN agent; \
             ALTER TABLE waiters DROP COLUMN ancestors; \
             ALTER TABLE waiters DROP COLUMN lasting; PRAGMA user_version = 1";
        connection.execute_batch(back).unwrap();
    }

    fn fresh() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(look(&connection).unwrap(), SchemaState::Empty);
        migrate(&connection, 0).unwrap();
        connection
    }

    #[test]
    fn an_empty_database_becomes_a_current_one() {
        assert_eq!(look(&fresh()).unwrap(), SchemaState::Current);
    }

    #[test]
    fn an_older_database_gets_the_steps_it_lacks() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(STEPS[0]).unwrap();
        let old = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1");
        connection.execute_batch(&old).unwrap();
        assert_eq!(look(&connection).unwrap(), SchemaState::Older(1));
        migrate(&connection, 1).unwrap();
        assert_eq!(look(&connection).unwrap(), SchemaState::Current);
        let keys = "SELECT count(*) FROM keys";
        assert_eq!(connection.query_row(keys, [], |row| row.get(0)), Ok(0));
    }

    #[test]
    fn an_older_database_keeps_the_views_of_the_records_it_has() {
        let connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..8] {
            connection.execute_batch(step).unwrap();
        }
        let agent = "INSERT INTO records (kind, id, version, changed_at, body) \
                     VALUES ('agent', 's1', 1, 't', '{\"id\":1}')";
        connection.execute(agent, []).unwrap();
        migrate(&connection, 8).unwrap();
        let shown = connection.query_row("SELECT id, session FROM agents", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
        assert_eq!(shown, Ok((1, "s1".to_owned())));
        let views = "SELECT group_concat(name) FROM sqlite_schema WHERE type = 'view'";
        let views = connection.query_row(views, [], |row| row.get(0));
        assert_eq!(views, Ok("agents".to_owned()));
    }

    #[test]
    fn every_view_has_a_statement_that_makes_it_once() {
        let connection = fresh();
        for (kind, name) in VIEWS {
            for _ in 0..2 {
                connection.execute_batch(&view_of(kind).unwrap()).unwrap();
            }
            let rows = format!("SELECT count(*) FROM {name}");
            assert_eq!(connection.query_row(&rows, [], |row| row.get(0)), Ok(0));
        }
        assert_eq!(view_of("issue"), None);
    }

    #[test]
    fn a_database_of_another_program_is_told_apart() {
        for sql in [
            "CREATE TABLE notes (text)",
            "PRAGMA user_version = 1",
            "PRAGMA application_id = 7",
        ] {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(sql).unwrap();
            assert_eq!(look(&connection).unwrap(), SchemaState::Foreign, "{sql}");
        }
    }

    #[test]
    fn the_audit_is_only_ever_added_to() {
        let connection = fresh();
        const ENTRY: &str = "INTO audit (at, action, resource, lock_id, token, owner, actor) \
                             VALUES ('t', 'acquire', 'name:x', 'a', 1, 'o', 'o')";
        for _ in 0..2 {
            connection.execute(&format!("INSERT {ENTRY}"), []).unwrap();
        }
        let numbered = "INSERT OR REPLACE INTO audit \
                        SELECT seq, at, 'release', resource, lock_id, token, owner, actor, reason, \
                        ends FROM audit WHERE seq = 1";
        for tampering in [
            "UPDATE audit SET owner = 'x' WHERE seq = 1",
            "DELETE FROM audit",
            "DELETE FROM audit WHERE seq = 2",
            numbered,
            "INSERT INTO audit (seq, at, action, resource, lock_id, token, owner, actor) \
             VALUES (99, 't', 'acquire', 'name:x', 'a', 1, 'o', 'o')",
            "INSERT OR REPLACE INTO audit (seq, at, action, resource, lock_id, token, owner, \
             actor) VALUES (-1, 't', 'acquire', 'name:x', 'a', 1, 'o', 'o')",
        ] {
            let refused = connection.execute(tampering, []);
            assert!(refused.is_err(), "{tampering}");
        }
        let left = "SELECT count(*), min(action), max(seq) FROM audit";
        let left =
            connection.query_row(left, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        assert_eq!(left, Ok((2, "acquire".to_owned(), 2)));
    }

    #[test]
    fn the_lock_table_has_the_columns_of_the_specification() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, 0).unwrap();
        let column = |name: &str| {
            let sql = "SELECT type, pk FROM pragma_table_info('dal_locks') WHERE name = ?1";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            connection.query_row(sql, [name], read).unwrap()
        };
        let text = |key: i64| ("TEXT".to_owned(), key);
        assert_eq!(column("lock_id"), text(1));
        for name in ["owner", "lease_expires", "heartbeat_ts", "metadata"] {
            assert_eq!(column(name), text(0), "{name}");
        }
    }
}
