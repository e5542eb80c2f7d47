//! Tasks of this repository: `cargo xtask bench`.

mod bench;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["bench", names @ ..] => bench::run(names),
        ["role", role, path, rest @ ..] => bench::role(role, path.as_ref(), rest),
        _ => {
            eprintln!("usage: cargo xtask bench [NAME...]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
