//! Help of `run`.

/// After the options of `run`.
pub const RUN_LONG: &str = "\
Examples:
  tenure run build -- cargo build
  tenure run --wait 30s --purpose nightly deploy -- ./deploy.sh
  tenure run --no-wait -E 0 sync -- ./sync        done if it runs already
  tenure run project:atlas=read map:atlas/m3 -- ./draw
  tenure run --reuse build -- make                inside another run of `build`
  tenure run --slot test:2 -- cargo test          two at a time on this machine
  tenure run --slot test:2 db -- cargo test       a slot first, then a lock
  tenure run --op map.calibrate --with project=atlas --with map=m3 -- ./job.sh

A resource is kind:id, such as map:atlas/m3; a bare name such as build means
name:build. Several are taken in one global order, all or nothing. =MODE (read,
write, upgradeable) is cut at the last `=` only if a mode follows.

A slot is one of N places, counted for this user on this machine, whatever the
store. Each caller says its own N, and has a place while fewer than N are taken.
A slot is taken before all locks; inside a lock it is refused. Inside a run that
has the same slot, it is shared with that. `tenure ls slot` shows who has them.

--op takes exactly the locks that the operation needs; tenure op show says which
and why.

The command gets TENURE_STORE, TENURE_SESSION, TENURE_OWNER, TENURE_RESOURCE,
TENURE_LEASE, TENURE_TOKEN (comma-separated) and TENURE_LEASES (JSON).
SIGINT, SIGTERM, SIGHUP and SIGQUIT go to its process group. When it ends, the
locks are released, whatever it left running. If `run` itself is killed, the
locks stay until the command ends. If a person breaks the lock, the command
gets SIGTERM, and SIGKILL five seconds later; if that happens before it was
started, it never is.

On postgres:// a lock is a lease of 30s (?lease_ttl=D in the URL), renewed while
the command runs. If `run` is killed, so is the command, but not the processes
it started in turn. If the lease cannot be renewed, the command gets SIGTERM
when two thirds of it are used up and SIGKILL at five sixths: before anybody
else can have the lock. The password in the URL is passed on to the command in
TENURE_STORE, and shown nowhere.

Exit codes: those of the command (128 + signal; 126 not executable, 127 not
found); 65 something of the operation is missing; 69 the store cannot be
reached; 75 busy or timed out (see -E); 76 asked for in the wrong order, or
held by an outer run already; 78 bad configuration; 79 the lock was lost, or
broken by a person: the command was stopped, or never started; 130 interrupted
while waiting.";
