//! Help of `op`.

/// After the commands of `op`.
pub const OP_LONG: &str = "\
Examples:
  tenure op ls
  tenure op show map.calibrate
  tenure op show map.calibrate --with project=atlas --with map=m3
  tenure run --op map.calibrate --with project=atlas --with map=m3 -- ./job.sh

An operation is a named kind of work, and the table says which locks it needs.
tenure.toml says which operations there are: policy = \"maps\" for those that are
compiled in, [operation.NAME] for your own (docs/operations.md).";

/// After the options of `op ls`.
pub const OP_LS_LONG: &str = "\
Examples:
  tenure op ls
  tenure op ls --json | jq -r '.operations[].operation'

With --json prints {\"operations\":[{\"operation\",\"about\",\"needs\",\"count\",\"from\",
\"needs_approval\"}],\"next\"}.

Exit codes: 0 shown; 78 tenure.toml names a policy that is not known.";

/// After the options of `op show`.
pub const OP_SHOW_LONG: &str = "\
Examples:
  tenure op show map.bulk
  tenure op show map.bulk --with project=atlas --with map=m3 --with objects=5000

Takes no lock. Without --with it shows the locks with the keys in them. With it,
exactly the locks that `tenure run --op` would take, in that order, and why.
With --json prints {\"operations\":[{\"operation\",\"about\",\"locks\":[{\"resource\",
\"mode\",\"why\"}]}],\"next\"}.

Exit codes: 0 shown; 65 the operation or a key is not known, or something is
missing, which the message names; 78 bad configuration.";
