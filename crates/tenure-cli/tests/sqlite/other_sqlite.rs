//! The database, read and changed by another program: Python with its own SQLite.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::world::World;

/// Answers each line `[path, mode, sql]` with the rows as one line of JSON. A connection lives for
/// one question. A read-only one leaves the log as it is when it closes.
const SCRIPT: &str = r#"
import json, sqlite3, sys
for line in sys.stdin:
    path, mode, sql = json.loads(line)
    uri = "file:" + path + "?mode=" + mode
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)
        if mode == "rwc":
            connection.executescript(sql)
            answer = []
        else:
            answer = connection.execute(sql).fetchall()
        connection.close()
    except sqlite3.Error as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"#;

/// Another program that knows SQLite.
pub struct Database {
    path: String,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Database {
    /// Opens the database of a world.
    pub fn of(world: &World) -> Self {
        Self::at(&world.path("store/tenure.db"))
    }

    /// Opens the database at a path.
    pub fn at(path: &Path) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            path: path.display().to_string(),
            questions: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Returns the rows of a query.
    #[track_caller]
    pub fn rows(&mut self, sql: &str) -> Vec<Value> {
        let answer = self.ask("ro", sql);
        let rows = answer.as_array().unwrap_or_else(|| panic!("{answer}"));
        rows.clone()
    }

    /// Returns the first column of the first row.
    #[track_caller]
    pub fn one(&mut self, sql: &str) -> Value {
        self.rows(sql)[0][0].clone()
    }

    /// Makes changes; makes the database first if it is not there.
    #[track_caller]
    pub fn change(&mut self, sql: &str) {
        let answer = self.ask("rwc", sql);
        assert_eq!(answer, Value::Array(vec![]), "{sql}");
    }

    #[track_caller]
    pub fn assert_whole(&mut self) {
        assert_eq!(self.one("PRAGMA integrity_check"), "ok");
    }

    fn ask(&mut self, mode: &str, sql: &str) -> Value {
        let questions = self.questions.as_mut().unwrap();
        let question = serde_json::json!([self.path, mode, sql]);
        writeln!(questions, "{question}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.wait();
    }
}
