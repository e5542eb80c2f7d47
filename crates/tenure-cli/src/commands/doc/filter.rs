//! The command that a document is piped through.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tenure::Error;
use tenure_files::document::DOCUMENT_BYTES_MAX;
use tenure_os::platform::die_with_parent;

use crate::exit;
use crate::report::Failure;
use crate::waiting::Interruption;

/// A command that gets text and prints text.
pub struct Filter {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The document, if there is only one.
    pub document: Option<PathBuf>,
    /// The subject and verb for "untouched" in errors: `a.json is`.
    pub untouched: String,
    /// The listener that passes signals on to the command.
    pub interruption: Arc<Interruption>,
}

impl Filter {
    /// Runs the command to its end, and returns its output. The command need not read its input.
    ///
    /// The command is a child of this thread and is killed if this thread ends, as its output could
    /// not be written any more.
    pub fn run(&self, input: &str) -> Result<String, Failure> {
        let mut child = self.spawn()?;
        self.interruption.pass_on_to(Pid::from_child(&child));
        let printed = exchange(&mut child, input);
        if !matches!(printed, Ok(Some(_))) {
            let _ = child.kill();
        }
        let status = self.reap(&mut child);
        let printed = printed.map_err(|source| self.failed("talk to", source))?;
        let Some(printed) = printed else {
            let most = DOCUMENT_BYTES_MAX >> 20;
            return Err(self.bad(&format!("printed more than {most} MiB")));
        };
        let status = status.map_err(|source| self.failed("wait for", source))?;
        if !status.success() {
            return Err(self.ended(status));
        }
        String::from_utf8(printed).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            self.bad(&format!("printed what is not UTF-8 at byte {at}"))
        })
    }

    fn spawn(&self) -> Result<Child, Failure> {
        let [program, arguments @ ..] = &self.command[..] else {
            return Err(Error::BadInput("there is no command to run".into()).into());
        };
        let mut command = Command::new(program);
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(document) = &self.document {
            command.env("TENURE_DOCUMENT", document);
        }
        die_with_parent(&mut command);
        self.interruption.open_to_signals(&mut command);
        command.spawn().map_err(|source| {
            let program = program.to_string_lossy().into_owned();
            Failure::Spawn { program, source }
        })
    }

    /// Waits for the end of the command, and reaps it once no more signals are passed on. Until
    /// then its process id stays its own.
    fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let pid = WaitId::Pid(Pid::from_child(child));
        while matches!(waitid(pid.clone(), options), Err(Errno::INTR)) {}
        self.interruption.hold_off();
        child.wait()
    }

    /// Returns the name of the program.
    pub fn name(&self) -> String {
        let program = self.command.first().map(Path::new);
        let name = program.and_then(Path::file_name).unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn ended(&self, status: ExitStatus) -> Failure {
        let (name, untouched) = (self.name(), &self.untouched);
        let what = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with {code}"),
            (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
        };
        Failure::Command {
            message: format!("{name} {what}; {untouched} untouched"),
            code: exit::of_command(status),
        }
    }

    fn bad(&self, what: &str) -> Failure {
        let (name, untouched) = (self.name(), &self.untouched);
        Error::BadInput(format!("{name} {what}; {untouched} untouched")).into()
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Failure {
        Error::io(action, self.name(), source).into()
    }
}

/// Feeds the command and returns its output, or `None` if that is more than a document may have.
/// Ends when the output ends; a process that the command started may keep it open.
///
/// A thread of its own feeds the command, which may print before it has read all, or never read at
/// all. The thread is not waited for, and ends with the process at the latest.
fn exchange(child: &mut Child, input: &str) -> io::Result<Option<Vec<u8>>> {
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        // A command that has read enough closes its end of the pipe, which is no failure.
        let feed = move || drop(stdin.write_all(input.as_bytes()));
        thread::Builder::new().name("feeding".into()).spawn(feed)?;
    }
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let most = DOCUMENT_BYTES_MAX as u64 + 1;
        stdout.take(most).read_to_end(&mut printed)?;
    }
    Ok((printed.len() <= DOCUMENT_BYTES_MAX).then_some(printed))
}
