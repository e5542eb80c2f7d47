//! `tenure completions`: the script by which a shell completes our words.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output;
use crate::report::Failure;

/// Shown after the arguments.
pub const HELP: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish";

/// Prints the completions for a shell.
pub fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let script = script(shell);
    output::exact(script)?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tenure", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            for mode in tenure::Mode::ALL {
                assert!(script.contains(mode.as_str()), "{shell}: {mode}");
            }
        }
    }
}
