//! Help of `recover`.

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
