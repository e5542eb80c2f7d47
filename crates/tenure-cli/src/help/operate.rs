//! Help of `doctor` and `completions`.

/// After the options of `doctor`.
pub const DOCTOR_LONG: &str = "\
Examples:
  tenure doctor
  tenure doctor --json
  tenure doctor --store file:/srv/locks
  tenure doctor --trust       let the commands in tenure.toml count

Says which store is used and why, and where settings come from. Looks at the
place of the store and, for sqlite, at the database: every page, its anchor, its
log and its sessions. For postgres: the server, its clock, poolers, rights, the
schema, and how many connections are left. Then takes a real lock in a child
process, shows that this process cannot take it, kills the child (on postgres,
lets it release), and shows that it can then. In a git repository it tries the
store with .git mounted read-only, as sandboxes of coding agents do. For each
coding agent with hooks here it says whether they run, and sends one event
through them.

A tenure.toml can name commands ([agents] summary). They count after --trust,
which is for people, and until the file changes.

Exit codes: 0 all is well; 1 there are problems, each with what to do; with
--trust: 66 there is no tenure.toml, 77 for automated owners.";

/// After the options of `completions`.
pub const COMPLETIONS_LONG: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish";
