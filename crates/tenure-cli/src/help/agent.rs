//! Help of `agent`.

/// After the commands of `agent`.
pub const AGENT_LONG: &str = "\
Examples:
  tenure agent install                 show what would be added, change nothing
  tenure agent install --write         add it for the programs used here
  tenure agent uninstall codex

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
