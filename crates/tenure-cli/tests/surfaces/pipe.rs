//! A second surface: every operation over a pipe, as JSON lines.
//!
//! A line is `{"operation","owner","request"}`, and the answer to it `{"response"}` or `{"error"}`.
//! The program is this test binary, started again as a child; it ends with its input.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tenure::Owner;
use tenure::store_choice::Environment;
use tenure_service::{Caller, Service, Surroundings};

use crate::world::World;

/// The test that a child runs.
const TEST: &str = "pipe::a_program_that_speaks_json_lines_answers_and_ends_with_its_input";
/// The variable that makes a process such a child.
const IS_CHILD: &str = "TENURE_TEST_PIPE";
/// The mark at the beginning of every answer, as the harness prints lines of its own.
const MARK: &str = "answer: ";

#[test]
fn a_program_that_speaks_json_lines_answers_and_ends_with_its_input() {
    if env::var_os(IS_CHILD).is_some() {
        return serve();
    }
    let world = World::new();
    let mut pipe = Pipe::start(&world);
    let unknown = pipe.call("ana", "no.such", json!({})).unwrap_err();
    assert_eq!(unknown["kind"], "not_found", "{unknown}");
    let wrong = pipe
        .call("ana", "renew", json!({ "lease": 7 }))
        .unwrap_err();
    assert_eq!(wrong["kind"], "bad_input", "{wrong}");
    let listed = pipe.call("ana", "ls", json!({})).unwrap();
    assert_eq!(listed["held"], json!([]));
    assert!(pipe.end().success());
}

/// Carries out the operations that come line by line.
fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    let environment = Environment::new(
        env::current_dir().unwrap(),
        rustix::process::geteuid().as_raw(),
    );
    let service = Service::new(Surroundings {
        environment: environment.with_variables(env::vars_os()),
        store: None,
        addresses: Vec::new(),
    });
    let service = service.unwrap();
    for line in io::stdin().lines() {
        let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let owner = Owner::parse(asked["owner"].as_str().unwrap()).unwrap();
        let caller = Caller::new(owner, "pipe").named(true);
        let name = asked["operation"].as_str().unwrap();
        let called = runtime.block_on(service.call(name, asked["request"].clone(), &caller));
        let answer = match called {
            Ok(response) => json!({ "response": response }),
            Err(failure) => json!({ "error": failure }),
        };
        println!("\n{MARK}{answer}");
        io::stdout().flush().unwrap();
    }
}

/// The program, running.
pub struct Pipe {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Pipe {
    pub fn start(world: &World) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        world.prepare(&mut command);
        let mut child = command
            .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
            .env(IS_CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
        }
    }

    /// Calls one operation for an owner.
    pub fn call(&mut self, owner: &str, operation: &str, request: Value) -> Result<Value, Value> {
        let asked = json!({ "operation": operation, "owner": owner, "request": request });
        writeln!(self.input, "{asked}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended before it answered {asked}");
            if let Some(answer) = line.strip_prefix(MARK) {
                let mut answer: Value = serde_json::from_str(answer).unwrap();
                return match answer["error"].take() {
                    Value::Null => Ok(answer["response"].take()),
                    error => Err(error),
                };
            }
        }
    }

    /// Closes the input of the program, which ends it.
    pub fn end(mut self) -> std::process::ExitStatus {
        drop(self.input);
        io::copy(&mut self.output, &mut io::sink()).unwrap();
        self.child.wait().unwrap()
    }
}
