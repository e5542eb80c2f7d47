//! Help of `ls`, `audit`, `recover` and `break`.

/// After the options of `ls`.
pub const LS_LONG: &str = "\
Examples:
  tenure ls                   all locks
  tenure ls map:atlas/        what begins so
  tenure ls map               all of kind `map`, and names that begin with `map`
  tenure ls --owner agent:42
  tenure ls slot              the slots of `run --slot`, whatever --store says
  tenure ls slot:test         one of them: who has a place, and who waits
  tenure ls --json | jq '.held[].resource'

PREFIX is the beginning of a resource as `ls` shows it. Without a `:` it means
names that begin so, and all resources of that kind. Slots are not among the
locks: they are counted in one place for this user and machine, and shown only
when asked for. Documents (`tenure doc`) are locked beside their files and are
not shown here; a command that waits for one is told who has it.

STATE is shown where a lease is not simply held: `expired` (it may still be
renewed, or taken over), `revoking` (a person breaks it), `offered` (its waiter
has not yet taken it up), `unknown` (nothing proves its session alive or dead;
only a person ends it: tenure break LEASE --reason TEXT).";

/// After the options of `audit`.
pub const AUDIT_LONG: &str = "\
Examples:
  tenure audit --since 1h
  tenure audit --resource deploy
  tenure audit --since 2026-01-31T12:00:00Z --json | jq '.entries[]'

The oldest entry comes first. Nothing in the record is ever changed or removed.
Actions are acquire, upgrade, downgrade, release, expire (a grant was not taken
up), recover, session_ended (its session died), break, and lost (the holder did
not stop).";

/// After the options of `recover`.
pub const RECOVER_LONG: &str = "\
Examples:
  tenure recover --dry-run    which leases look stale, and why they are kept
  tenure recover              end those that are

A lease is stale when its time is over, its heartbeat is older than stale_grace
(if tenure.toml sets that), and no active job claims it; or when the session it
is bound to is proved dead. A waiter takes over by itself: this is for leases
that nobody waits for. It never takes a lease away from anyone who may still
rely on it, so it does not ask.";

/// After the options of `break`.
pub const BREAK_LONG: &str = "\
Examples:
  tenure ls                                         find the lease
  tenure break l1 --reason 'its machine is gone'
  tenure break l1 --reason 'stuck, see #4711' --yes

For people: shows everything known of the lease and asks. Owners that are
automated (agent:*, job:*, or as tenure.toml says) are refused. Nobody else gets
the lock until its holder confirms that it stopped, or for ten seconds. A `run`
stops its command in that time and exits 79. What still runs after that is
fenced by its token as soon as somebody else takes the lock. Break is recorded,
with the reason: see `tenure audit`. The lease of a slot is found, too.

Exit codes: 0 broken; 1 not confirmed; 2 there is no terminal to ask on (use
--yes); 66 there is no such lease; 77 it is over, or you are an automated owner.";
