//! Help of `agent` and `status`.

/// After the commands of `agent`.
pub const AGENT_LONG: &str = "\
Examples:
  tenure agent install             show what the programs found here need
  tenure agent install --write     add it to their settings
  tenure agent ls                  who is at work, on what
  tenure agent watch               tend them until interrupted

Coding agents report by their hooks; no server runs. From then on their claims
and leases live while they live, heavy commands go through slots, and a file is
edited by one agent at a time. See docs/agents.md.

A command that a coding agent runs asks as agent:PROGRAM-SESSION, unless --owner
or TENURE_OWNER says otherwise: two agents of one user are two owners.";

/// After the options of `agent install`.
pub const AGENT_INSTALL_LONG: &str = "\
Examples:
  tenure agent install
  tenure agent install --write claude
  tenure agent install --json | jq -r '.allow[]'

Shows the change, and makes it only with --write. Adds hooks that call `tenure
agent hook` to the settings of each program in the main worktree, or in the
current directory outside of a git repository, and keeps every byte of what is
there:
  claude   .claude/settings.json      codex    .codex/hooks.json
  gemini   .gemini/settings.json      copilot  .github/hooks/tenure.json
  cursor   .cursor/hooks.json
Sets store = \"user:\" in tenure.toml, unless it names a store: a store in the
user's state directory that belongs to the repository, which agents reach whose
sandbox makes .git read-only. Prints the one directory to allow in the settings
of each sandbox. The board moves with the store. Done twice it is done once.
Links, and files of other users, are refused.

With --json prints {\"changes\":[{\"file\",\"program\",\"added\":[…],\"state\":
\"added|present|would add\"}],\"allow\":[DIRECTORY]}.

Exit codes: 0 shown or done; 65 a file is not JSON, or of another shape: it is
untouched; 66 no program is used here, so name one; 77 a file is a link or of
another user; 78 tenure.toml cannot be read.";

/// After the options of `agent uninstall`.
pub const AGENT_UNINSTALL_LONG: &str = "\
Examples:
  tenure agent uninstall
  tenure agent uninstall codex

Takes out the hooks that install added, and nothing else; files and lists that
were made for them go, too. With the hooks of the last program it takes out of
tenure.toml what install put there. Lock files (.NAME.lock) stay.

With --json prints {\"changes\":[{\"file\",\"program\",\"removed\":[…],\"state\":
\"removed|absent\"}]}.

Exit codes: as install.";

/// After the options of `agent hook`.
pub const AGENT_HOOK_LONG: &str = "\
Examples:
  echo '{\"hook_event_name\":\"Stop\",\"session_id\":\"s1\"}' | tenure agent hook
  tenure agent hook --program gemini < event.json

For the settings of a coding agent, where `tenure agent install` puts it. Reads
one event from standard input and processes it in the store, one at a time for
each agent. Prints what the agent must know, in the form of its program: a
denial of a guard, or context. An event that cannot be processed within a
second waits in a file for the next hook, or for `tenure agent watch`.

Exit codes: 0, always: a hook must not stop its agent. What went wrong is told
on standard error.";

/// After the options of `agent ls`.
pub const AGENT_LS_LONG: &str = "\
Examples:
  tenure agent ls
  tenure agent ls --all --json | jq '.agents[].owner'

States: idle, running, waiting (for a person), done (its session is over), gone
(not seen for long; its next event lifts this).
With --json prints {\"agents\":[{\"id\",\"session\",\"program\",\"owner\",\"state\",
\"reason\",\"doing\",\"cwd\",\"started_at\",\"last_seen\",\"context\",\"holds\",
\"waits_for\",\"claims\",…}],\"next\"}.

Exit codes: 0 shown; 69 store unreachable; 78 the store keeps no records.";

/// After the options of `agent watch`.
pub const AGENT_WATCH_LONG: &str = "\
Examples:
  tenure agent watch
  tenure agent watch --once --json

Processes events that hooks could not, carries out stops that are due, calls
agents gone that were not seen for long ([agents] gone_after in tenure.toml, 1h)
or whose tmux pane is gone, adds turns and token counts from transcripts, and
summarises turns with [agents] summary, once a person ran `tenure doctor --trust`.
An agent that a hook is at is skipped, and comes in the next go. It ends no
lease but the files of a turn that has ended (edits_until), and reaps the ledgers that
agents have claimed in.
With --json prints one object for each go: {\"spooled\",\"stopped\",\"gone\",\"turns\",
\"contexts\",\"summaries\",\"skipped\",\"warnings\"}.

Exit codes: 0 after --once; 69 store unreachable; 78 bad configuration.";

/// After the options of `status`.
pub const STATUS_LONG: &str = "\
Examples:
  tenure status
  tenure status --watch
  tenure status --json | jq '.slots'

With --json prints {\"agents\":[…],\"held\":[…],\"waiting\":[…],\"slots\":[{\"slot\",
\"held\",\"waiting\"}],\"board\":null|{\"open\",\"ready\",\"claimed\",\"blocked\",\"done\"}}.

Exit codes: 0 shown; 69 store unreachable; 78 bad configuration.";
