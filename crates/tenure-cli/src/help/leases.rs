//! Help of `lock`, and of what is done to its leases.

/// After the options of `lock`.
pub const LOCK_LONG: &str = "\
Examples:
  lease=$(tenure lock deploy --ttl 1h --purpose 'release 4.2')
  tenure lock --no-wait map:atlas/m3=upgradeable project:atlas=read
  tenure lock build --key ci-4711            asked again: the same lease
  tenure lock deploy --json | jq -r '.leases[0].token'

The lease stays when this command ends: until it is released, or until its time
runs out and someone else wants it. Give it more time with `tenure renew` well
before that. Prints one lease id a line, in the order the locks are taken (by
kind, then by name); --json says which lease is of which resource. Several are
taken all or nothing, and their time begins when the last of them is there.

Guard what you write with the token of the lease: `tenure check` says whether
someone took over meanwhile.

Exit codes: 0 locked; 75 busy or timed out; 76 asked for in the wrong order,
held by the run around it, or the key stands for another request or for a lease
that has ended (one that only ran out of time is renewed); 78 the store keeps no
leases; 79 a person broke it before it was taken; 130 interrupted while
waiting.";

/// After the options of `renew`.
pub const RENEW_LONG: &str = "\
Examples:
  tenure renew \"$lease\"
  tenure renew --ttl 2h \"$lease\"
  tenure renew --owner agent:42 l1 l2

An expired lease may be renewed, too, as long as nobody took over. All leases
are tried, whatever becomes of one; the highest exit code wins.

Exit codes: 0 renewed; 66 there is no such lease; 77 it is over, it is another
owner's, or it is bound to a run, which needs no renewal.";

/// After the options of `release`.
pub const RELEASE_LONG: &str = "\
Examples:
  tenure release \"$lease\"
  tenure release map:atlas/m3                     the one lease you have of it
  tenure release --owner agent:42 l1 l2

What is no id of a lease names a resource, of which the owner (--owner, else
TENURE_OWNER, else user@host) has one lease. All are tried, whatever becomes of
one; the highest exit code wins.

Exit codes: 0 released; 66 there is no such lease; 76 the owner has several of
that resource; 77 it is over, it is another owner's, or it is bound to a run,
which ends it (or a person does, with: tenure break LEASE --reason TEXT).";

/// After the options of `upgrade`.
pub const UPGRADE_LONG: &str = "\
Examples:
  lease=$(tenure lock map:atlas/m3=upgradeable)
  tenure upgrade \"$lease\"
  tenure upgrade --wait 1m \"$lease\"

Waits for the readers to leave; meanwhile no new ones come in. On timeout the
lease is as before. The exclusive lease has a new token.

Exit codes: 0 upgraded; 66 there is no such lease; 75 others read for too long;
76 it is not upgradeable, or something ordered later is held; 77 it is over, or
it is another owner's; 130 interrupted while waiting.";

/// After the options of `downgrade`.
pub const DOWNGRADE_LONG: &str = "\
Examples:
  tenure downgrade \"$lease\"
  tenure downgrade --owner agent:42 \"$lease\"

Exit codes: 0 downgraded; 66 there is no such lease; 76 it was never upgraded;
77 it is over, or it is another owner's.";

/// After the options of `check`.
pub const CHECK_LONG: &str = "\
Examples:
  tenure check deploy \"$token\" && ./publish
  tenure run x -- sh -c 'make && tenure check x \"$TENURE_TOKEN\" && make install'

A token is good while it is that of the newest exclusive grant of the resource,
released or not. What was only ever shared has the token 0. Between the check
and a write someone may still take over: where it counts, let what you write to
compare tokens itself.

Exit codes: 0 it is good; 66 nobody ever locked the resource in this store; 69
the store cannot be asked; 77 it is fenced, as someone else took over, or it was
never granted.";
