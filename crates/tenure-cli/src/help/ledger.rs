//! Help of `ledger`.

/// After the commands of `ledger`.
pub const LEDGER_LONG: &str = "\
Examples:
  tenure ledger init proof
  tenure ledger append proof '{\"type\":\"node_created\",\"node_id\":\"1.2\"}'
  tenure ledger claim proof 1.2 --ttl 5m       exactly one of all agents wins
  tenure ledger append proof --token 1.2#2 '{\"type\":\"node_proved\"}'
  tenure ledger release proof 1.2
  tenure ledger log proof --follow

An event is a file, DIR/ledger/event-000001.json, on disk before its number is
printed, and never changed. Other programs may append to the same directory,
with ledger.lock as the protocol in docs/ledger.md says.";

/// After the options of `ledger init`.
pub const LEDGER_INIT_LONG: &str = "\
Examples:
  tenure ledger init proof
  tenure ledger init proof --claim-ttl 10m

Makes DIR, DIR/ledger and DIR/meta.json. A ledger that is there stays as it is.

Exit codes: 0 it is there; 65 claims last from 1s to 1h; 69 it cannot be made;
76 meta.json says that claims last for another time.";

/// After the options of `ledger append`.
pub const LEDGER_APPEND_LONG: &str = "\
Examples:
  tenure ledger append proof '{\"type\":\"node_created\",\"node_id\":\"1.2\"}'
  tenure ledger append proof - < event.json
  tenure ledger append proof --expect 41 \"$event\"       only as event 42
  tenure ledger append proof --token 1.2#7 \"$event\"     only while 1.2#7 is held

Prints the number of the event. With --json prints {\"sequence\"}. What must be
atomic is one event: there are no transactions over several.

Exit codes: 0 on disk; 65 no JSON object with a type, over 1 MB, or an event of
claims; 66 there is no ledger; 69 the disk is full or broken, with the kind
\"unknown\" and a \"sequence\" if the event may be there: look; 75 locked for too
long; 76 another event came first (\"expected\", \"actual\" in JSON); 77 the claim
is over; 79 the lock was taken away meanwhile: look before you repeat it.";

/// After the options of `ledger log`.
pub const LEDGER_LOG_LONG: &str = "\
Examples:
  tenure ledger log proof --after 40
  tenure ledger log proof --type node_proved --json
  tenure ledger log proof --follow --json      one object a line

Takes no lock. With --json prints {\"events\":[{\"sequence\",\"event\"}],\"next\"};
next is for --after, and null at the end. Also reads ledgers of files like 000001.json.

Exit codes: 0 shown; 65 an event is torn; 66 there is no ledger.";

/// After the options of `ledger show`.
pub const LEDGER_SHOW_LONG: &str = "\
Examples:
  tenure ledger show proof 7
  tenure ledger show proof 7 | jq .type

Exit codes: 0 shown; 65 it is torn; 66 there is no such event.";

/// After the options of `ledger verify`.
pub const LEDGER_VERIFY_LONG: &str = "\
Examples:
  tenure ledger verify proof
  tenure ledger verify proof --repair          says what it did
  tenure ledger verify proof --repair --yes    also what a program is not sure of

Reads every event. Finds missing and torn events, wrong names, events that were
edited, and what dead processes left. Nothing is repaired unasked; what is taken
out is kept beside, under a hidden name that ends with .aside. With --yes an event
that is missing or torn is replaced by one of type event_missing, since its number
never comes again, and the claims from before it are ended and named; and a
ledger.lock of another program is removed if it and its text are older than 30s;
claims that last too long are ended.

With --json prints {\"events\":N,\"findings\":[{\"file\",\"problem\",\"repair\"}]}.

Exit codes: 0 all is in order, or repaired; 65 there are findings; 75 the ledger
is locked.";

/// After the options of `ledger claim`.
pub const LEDGER_CLAIM_LONG: &str = "\
Examples:
  tenure ledger claim proof 1.2.3
  tenure ledger claim proof 1.2.3 --owner agent:7 --ttl 10m
  tenure ledger claim proof 1.2.3#7            more time; the token stays

Prints NODE#TOKEN. The token is the number of the event that acquired it; it is
for renewing, and for append --token, which refuses a claim that was lost.

Exit codes: 0 claimed; 65 bad node or time, a missing event, or one about the node
that is not whole or not of this day; 69 as for append, with the token as \"sequence\"; 75 node already locked, or the ledger is; 76 this owner has it already; 77 the
claim to be renewed is over.";

/// After the options of `ledger release`.
pub const LEDGER_RELEASE_LONG: &str = "\
Examples:
  tenure ledger release proof 1.2.3
  tenure ledger release proof 1.2.3 --owner agent:7

Exit codes: 0 released; 75 the ledger is locked; 77 it is not claimed, or by
another owner.";

/// After the options of `ledger claims`.
pub const LEDGER_CLAIMS_LONG: &str = "\
Examples:
  tenure ledger claims proof
  tenure ledger claims proof --json | jq '.claims[] | select(.state == \"held\")'

Takes no lock. Claims whose time is over are shown as expired until someone
reaps them, or claims the node.

Exit codes: 0 shown; 65 an event is missing or torn, or the ledger is of the form
000001.json, whose claims are not read; 66 there is no ledger.";

/// After the options of `ledger reap`.
pub const LEDGER_REAP_LONG: &str = "\
Examples:
  tenure ledger reap proof
  tenure ledger reap proof --json

Appends lock_reaped for each claim whose time is over, and shows them. Also
removes files of such claims that other programs left in DIR/locks.

Exit codes: 0 done; 65 an event is missing or torn; 75 the ledger is locked.";
