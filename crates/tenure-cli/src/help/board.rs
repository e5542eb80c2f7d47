//! Help of `board`.

/// After the commands of `board`.
pub const BOARD_LONG: &str = "\
Examples:
  tenure board init
  tenure board add 'Fix the login' --priority 1 --label web
  tenure board ls
  tenure board next --claim                    exactly one of all agents gets it
  tenure board done fix-login
  tenure board run -- ./agent                  claim, run, done: one issue

Issues are plain JSON files that any number of processes change at once: no
update is lost, no issue is taken twice, and what was acknowledged is on disk.
The board is in the git repository, so that its worktrees share it, or beside
the store where tenure.toml says store = \"user:\", else in the user's state
directory; --dir puts it anywhere.";

/// After the options of `board init`.
pub const BOARD_INIT_LONG: &str = "\
Examples:
  tenure board init
  tenure board init --dir todo                 plain files, with a .gitignore

A board that is there stays as it is. In its usual place it is also made by the
first `tenure board add`.

Exit codes: 0 it is there; 69 it cannot be made.";

/// After the options of `board add`.
pub const BOARD_ADD_LONG: &str = "\
Examples:
  tenure board add 'Fix the login'
  tenure board add 'Deploy' --id deploy --depends fix-login --gate review
  git log -1 --format=%B | tenure board add 'Look at this' --body -

Prints the id. With --json prints {\"issues\":[…]}.

Exit codes: 0 on disk; 65 bad title, id or label, or the board is that of
another program; 66 no board, or what it
depends on or its gate is not there; 75 locked for too long; 76 the id is
taken, or was.";

/// After the options of `board show`.
pub const BOARD_SHOW_LONG: &str = "\
Examples:
  tenure board show fix-login
  tenure board show fix-login --json | jq '.issues[0].notes'

Exit codes: 0 shown; 65 its file is broken or missing; 66 there is none.";

/// After the options of `board ls`.
pub const BOARD_LS_LONG: &str = "\
Examples:
  tenure board ls
  tenure board ls --ready --label web
  tenure board ls --owner agent:7 --json

Lowest priority number first, then oldest. With --json prints {\"issues\":[…],
\"unreadable\":[{\"id\",\"title\",\"file\",\"problem\"}],\"next\":null}.

Exit codes: 0 shown; 65 index.json is broken; 66 there is no board.";

/// After the options of `board set`.
pub const BOARD_SET_LONG: &str = "\
Examples:
  tenure board set fix-login priority=0 labels=web,urgent
  tenure board set fix-login 'title=Fix the login page'
  tenure board set fix-login state=open        it is not done after all

Exit codes: 0 on disk; 65 no such field, or a bad value; 66 there is none; 75
it is locked for too long.";

/// After the options of `board note`.
pub const BOARD_NOTE_LONG: &str = "\
Examples:
  tenure board note fix-login 'the test needs a database'
  tenure board note fix-login - < findings.txt

Who, when and what is kept in the issue, for the next one who works on it.

Exit codes: 0 on disk; 65 empty or too long; 66 there is none; 75 locked.";

/// After the options of `board delete`.
pub const BOARD_DELETE_LONG: &str = "\
Examples:
  tenure board delete fix-login

Its id is never used again.

Exit codes: 0 deleted; 66 there is none; 75 locked; 76 others depend on it,
which are named; 77 another owner works on it.";

/// After the options of `board depend`.
pub const BOARD_DEPEND_LONG: &str = "\
Examples:
  tenure board depend deploy --on fix-login
  tenure board depend deploy --on fix-login --remove

Exit codes: 0 on disk; 66 there is none; 75 locked; 76 that closes a circle,
which is named.";

/// After the commands and options of `board gate`.
pub const BOARD_GATE_LONG: &str = "\
Examples:
  tenure board gate define review --by people
  tenure board add 'Deploy' --gate review      waits until it is passed
  tenure board gate pass deploy review
  tenure board gate fail deploy review

Owners like agent:* and job:* are no people (`automated` in tenure.toml).

Exit codes: 0 on disk; 66 no such issue or gate; 75 locked; 76 it is defined in
another way; 77 it is for people.";

/// After the options of `board events`.
pub const BOARD_EVENTS_LONG: &str = "\
Examples:
  tenure board events --after 40
  tenure board events --follow --json          one object a line

Takes no lock. With --json prints {\"events\":[{\"line\",\"event\"}],\"next\":null}.

Exit codes: 0 shown; 66 there is no board.";

/// After the options of `board verify`.
pub const BOARD_VERIFY_LONG: &str = "\
Examples:
  tenure board verify
  tenure board verify --repair                 says what it did

Names every file that cannot be read, issues that the index does not list, and
what killed processes left. Nothing is repaired unasked. A repair puts both
sides of a merge of git together in index.json, lists issues and removes what
was left; issues, gates and the log are for people to correct.

With --json prints {\"issues\":N,\"findings\":[{\"file\",\"problem\",\"repair\"}]}.

Exit codes: 0 all is in order, or repaired; 65 there are findings; 66 there is
no board; 75 it is locked.";

/// After the options of `board next`.
pub const BOARD_NEXT_LONG: &str = "\
Examples:
  tenure board next
  id=$(tenure board next --claim --owner agent:7)
  tenure board next --claim --wait 10m --json

Ready is what is open, waits for no issue and no gate, and nobody has: lowest
priority number first, then oldest. Prints its id; the token of the claim is in
the JSON, and told on standard error.

Exit codes: 0 printed; 65 an issue cannot be read, and nothing else is left; 66
nothing is left to do; 75 something is, but it is claimed, blocked or locked.";

/// After the options of `board run`.
pub const BOARD_RUN_LONG: &str = "\
Examples:
  tenure board run -- ./agent
  while tenure board run --wait 10m -- ./agent; do :; done
  tenure board run --label web -- sh -c 'jq -r .title; make test'

The command gets TENURE_ISSUE, TENURE_TOKEN, and the issue as JSON on standard
input. The claim is renewed while it runs. If it exits with 0 the issue is done;
else it is released with a note. If this process is killed, so is the command,
but not what the command started, and the claim ends by itself.

Exit codes: that of the command; 65 an issue cannot be read, and nothing else is
left; 66 nothing is left to do; 75 nothing is ready; 79 the claim was lost while
it ran.";

/// After the options of `board claim`.
pub const BOARD_CLAIM_LONG: &str = "\
Examples:
  token=$(tenure board claim fix-login)
  tenure board claim fix-login --ttl 2h --owner agent:7
  tenure board claim fix-login --token 17      more time, as renew does

Exit codes: 0 claimed; 66 there is none; 75 another has it, or it is locked; 76
this owner has it, it is done, or it is blocked; 77 the token is older.";

/// After the options of `board renew`.
pub const BOARD_RENEW_LONG: &str = "\
Examples:
  tenure board renew fix-login
  tenure board renew fix-login --token \"$token\" --ttl 1h

Prints the token, which stays. A claim that is over and that nobody took is
renewed, too.

Exit codes: 0 renewed; 66 there is none; 77 another has it, nobody has it, or
the token is older.";

/// After the options of `board release`.
pub const BOARD_RELEASE_LONG: &str = "\
Examples:
  tenure board release fix-login
  tenure board release fix-login --token \"$token\"

Exit codes: 0 released; 66 there is none; 77 another has it, nobody has it, or
the token is older.";

/// After the options of `board done`.
pub const BOARD_DONE_LONG: &str = "\
Examples:
  tenure board done fix-login
  tenure board done fix-login --token \"$token\"

Exit codes: 0 done; 66 there is none; 76 it is done already, or blocked; 77
another has it, or the token is older.";
