//! The texts of `--help` that do not belong to a single option.

/// Commands are grouped as the documentation groups them; clap has no groups of commands.
pub const OVERVIEW: &str = "\
{about-with-newline}
{usage-heading} {usage}

Locks:
  run          Take locks, run a command under them, release them
  ls           Show what is held, by whom and why

Operate:
  doctor       Say which store is used and why, and prove that it locks
  completions  Print completions for a shell
  help         Print help for a command

Options:
{options}{after-help}";

/// Examples, the choice of the store and the exit codes, after the overview.
pub const OVERVIEW_LONG: &str = "\
Examples:
  tenure run build -- cargo build              one build at a time
  tenure run --no-wait nightly -- ./nightly    exit 75 if it runs already
  tenure run map:atlas/m3=read -- ./export     readers share, writers exclude
  tenure ls                                    who holds what

Store: --store, else TENURE_STORE, else the nearest tenure.toml upwards, else
  <git common dir>/tenure inside a git repository, so that worktrees share it,
  else the user's state directory. `tenure doctor` says which, and why.

Exit codes:
  0    done; `run` passes on the code of its command (128 + signal)
  1    other                        75   busy, or timed out
  2    usage                        76   conflict: order, re-entry
  65   bad input, corrupt data      77   not allowed
  66   not found                    78   bad configuration
  69   store unreachable            79   the lock was lost while the command ran
  70   internal                     126  command not executable
  130  interrupted while waiting    127  command not found";

/// After the options of `run`.
pub const RUN_LONG: &str = "\
Examples:
  tenure run build -- cargo build
  tenure run --wait 30s --purpose nightly deploy -- ./deploy.sh
  tenure run --no-wait -E 0 sync -- ./sync        nothing to do if it runs already
  tenure run project:atlas=read map:atlas/m3 -- ./draw
  tenure run --reuse build -- make                inside another run of `build`

A resource is kind:id; a bare name is of kind `name`. Several are taken in one
global order, all or nothing. =MODE (read, write, upgradeable) is cut at the
last `=` only if a mode follows.

The command gets TENURE_STORE, TENURE_SESSION, TENURE_OWNER, TENURE_RESOURCE,
TENURE_LEASE, TENURE_TOKEN (comma-separated) and TENURE_LEASES (JSON).
SIGINT, SIGTERM, SIGHUP and SIGQUIT go to its process group. When it ends, the
locks are released, whatever it left running. If `run` itself is killed, the
locks stay until the command ends.

Exit codes: those of the command (128 + signal; 126 not executable, 127 not
found); 75 busy or timed out (see -E); 76 asked for in the wrong order or held by
an outer run already; 79 the lock was lost and the command was stopped; 130
interrupted while waiting.";

/// After the options of `ls`.
pub const LS_LONG: &str = "\
Examples:
  tenure ls                   everything
  tenure ls map:atlas/        what begins so
  tenure ls map               all of kind `map`, and names that begin with `map`
  tenure ls --owner agent:42
  tenure ls --json | jq '.held[].resource'

PREFIX is the beginning of a resource as `ls` shows it. Without a `:` it means
names that begin so, and all resources of that kind.";

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
