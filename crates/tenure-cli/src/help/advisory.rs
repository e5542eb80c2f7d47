//! Help of `advisory`.

/// After the commands of `advisory`.
pub const ADVISORY_LONG: &str = "\
Examples:
  tenure advisory ls
  tenure advisory run agent 42 -- ./hook session-start
  tenure advisory run --no-wait channel general -- ./post

Advisory locks are PostgreSQL's own: every program that calls pg_advisory_lock
in the same database takes part. They need --store postgres://… or
TENURE_STORE. They have no leases, no queue that can be seen and no audit; locks
among programs that use Tenure are better taken with `tenure run`.";

/// After the options of `advisory ls`.
pub const ADVISORY_LS_LONG: &str = "\
Examples:
  tenure advisory ls
  tenure advisory ls --json | jq '.locks[] | select(.granted)'

Every holder and every waiter of this database. NAMESPACE is that of the form
with two numbers; a key of one 64-bit number has none. HELD is known of Tenure's
own only. With --json: {\"locks\":[{\"pid\",\"application_name\",\"state\",
\"query_start\",\"namespace\",\"id\",\"mode\",\"granted\",\"duration\"}],\"total\",
\"next\":null}, the duration in seconds.";

/// After the options of `advisory run`.
pub const ADVISORY_RUN_LONG: &str = "\
Examples:
  tenure advisory run agent 42 -- ./hook session-start
  tenure advisory run --wait 3s agent 42 -- ./hook stop
  tenure advisory run --no-wait 7 nightly -- ./nightly    a namespace of your own
  tenure advisory run 1 -5 -- ./migrate                   numbers as they are

A name becomes a number of 32 bits as other programs make it; two names may meet
in one. The lock is held by a connection of its own, outside any transaction.

The command gets TENURE_STORE, TENURE_RESOURCE (advisory:NAMESPACE/ID) and
TENURE_TOKEN, a number that only goes up from holder to holder. If `run` itself
is killed, so is the command. If the connection is lost, or the server does not
answer for two seconds, the command gets SIGTERM, and SIGKILL half a second
later: a server that lost the connection gives the lock to the next at once, so
let what must not be written twice check the token.

Exit codes: those of the command (128 + signal; 126 not executable, 127 not
found); 69 unreachable; 75 busy or timed out; 78 no PostgreSQL, or a pooler that
shares sessions; 79 the lock was lost and the command was stopped; 130
interrupted while waiting.";
