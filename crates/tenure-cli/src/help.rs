//! The overview: the help of the command as a whole.

/// The overview. It groups the commands as the documentation does; clap has no groups of commands.
pub const OVERVIEW: &str = "\
{about-with-newline}
{usage-heading} {usage}

Locks:
  run          Take locks, run a command under them, release them
  lock         Take locks that outlive this command, and print their leases
  renew        Give leases more time
  release      End leases
  upgrade      Make an upgradeable lease exclusive
  downgrade    Make an upgraded lease upgradeable again
  check        Say whether a token is still good
  ls           Show what is held and who waits, and why
  recover      End stale leases; always safe
  break        Take a lease away from its holder
  audit        Show who did what to a lock, when and why
  advisory     PostgreSQL's own locks, which other programs take, too

Files:
  doc          Read, write, change and clean JSON documents that are never torn
  publish      Put a directory in place whole, and verify what is there
  ledger       Append events that are never lost, and claim nodes

Work:
  board        Issues that many agents create, change and claim at once
  op           Show which operations there are, and which locks each needs

Agents:
  agent        Coding agents: their hooks, what they do, and what tends them
  status       Show agents, locks, slots and the board on one page

Operate:
  doctor       Say which store is used and why, and prove that it locks
  schema       Print the JSON schemas of what is asked and answered
  completions  Print completions for a shell
  help         Print help for a command

Options:
{options}{after-help}";

/// The text after the overview: examples, the choice of the store, and the exit codes.
pub const OVERVIEW_LONG: &str = "\
Examples:
  tenure run build -- cargo build              one build at a time
  tenure run --no-wait nightly -- ./nightly    exit 75 if it runs already
  tenure run map:atlas/m3=read -- ./export     readers share, writers exclude
  tenure run --slot test:2 -- cargo test       two at a time on this machine
  tenure lock deploy --ttl 1h                  until released, or for an hour
  tenure ls                                    who holds what, and who waits
  tenure doc update a.json -- jq '.n += 1'     change a file, safe from others

Store: --store, else TENURE_STORE (sqlite:PATH, postgres://user@host/database
  for many machines, file:DIR), else the nearest tenure.toml upwards, else
  <git common dir>/tenure/tenure.db inside a git repository, so that worktrees
  share it, else the user's state directory. `tenure doctor` says which and why.

Exit codes:
  0    done; `run` passes on the code of its command (128 + signal)
  1    other                        75   busy, or timed out
  2    usage                        76   conflict: order, version, key
  65   bad input, corrupt data      77   not allowed: fenced, over, not yours
  66   not found                    78   bad configuration
  69   store unreachable            79   the lock was lost, or broken
  70   internal                     126  command not executable
  130  interrupted while waiting    127  command not found";
