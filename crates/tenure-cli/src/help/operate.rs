//! Help of `doctor` and `completions`.

/// After the options of `doctor`.
pub const DOCTOR_LONG: &str = "\
Examples:
  tenure doctor
  tenure doctor --json
  tenure doctor --store file:/srv/locks

Takes a real lock in a child process, shows that this process cannot take it, kills
the child, and shows that it can then. Exits 0 if all is well, 1 if there are problems.";

/// After the options of `completions`.
pub const COMPLETIONS_LONG: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish";
