//! The words of the command for what a remedy names: the one table of them.

use tenure_core::error::{Part, Remedy};
use tenure_core::request::command_line;

/// The operations whose command line is not their name.
const COMMANDS: [(&str, &str); 8] = [
    ("acquire", "lock"),
    ("agent.apply", "agent install --write"),
    ("agent.plan", "agent install"),
    ("board.gate.judge", "board gate"),
    ("publish.history", "publish --history"),
    ("publish.put", "publish"),
    ("publish.verify", "publish --verify"),
    ("trust", "doctor --trust"),
];
/// The fields of operations that are options. The others are given by their place.
const OPTIONS: [&str; 3] = ["on", "reason", "store"];
const FIELDS: [(&str, &str); 1] = [("reuse", "tenure run --reuse")];
const SETTINGS: [(&str, &str); 3] = [
    ("owner", "--owner, or TENURE_OWNER"),
    ("store", "--store or TENURE_STORE"),
    ("trust_flock", "TENURE_TRUST_FLOCK"),
];

/// Returns a remedy in the words of the command.
pub fn in_words(remedy: &Remedy) -> String {
    remedy.in_words(word)
}

/// Returns what the command calls a part of a remedy.
pub fn word(part: &Part) -> String {
    let option = |name: &str| format!("--{}", name.replace('_', "-"));
    match part {
        Part::Text(text) => text.clone(),
        Part::Operation {
            operation,
            arguments,
        } => {
            let command = in_table(&COMMANDS, operation);
            let mut line = format!("tenure {}", command.unwrap_or(&operation.replace('.', " ")));
            for (name, value) in arguments {
                line += &match &**name {
                    "state" => format!(" {name}={value}"),
                    _ if value.is_empty() => format!(" {}", option(name)),
                    name if OPTIONS.contains(&name) => format!(" --{name} {}", command_line([value])),
                    _ => format!(" {}", command_line([value])),
                };
            }
            line
        }
        Part::Field { field, value } => {
            let name = in_table(&FIELDS, field).map_or_else(|| option(field), str::to_owned);
            value.iter().fold(name, |name, value| name + " " + value)
        }
        Part::Setting { setting, value } => {
            let name = in_table(&SETTINGS, setting).map_or_else(|| option(setting), str::to_owned);
            value.iter().fold(name, |name, value| name + "=" + value)
        }
    }
}

fn in_table(table: &'static [(&str, &str)], name: &str) -> Option<&'static str> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_remedy_names_is_told_as_it_is_typed() {
        let said = |remedy: Remedy| in_words(&remedy);
        let to = || Remedy::from("");
        let renew = to().operation("board.renew", [("issue", "x1")]);
        assert_eq!(said(renew), "tenure board renew x1");
        let end = to().operation("break", [("lease", "a"), ("reason", "TEXT")]);
        assert_eq!(said(end), "tenure break a --reason TEXT");
        let repair = [("directory", "a b"), ("repair", ""), ("yes", "")];
        let repair = to().operation("ledger.verify", repair);
        assert_eq!(said(repair), "tenure ledger verify 'a b' --repair --yes");
        let open = to().operation("board.set", [("issue", "x"), ("state", "open")]);
        assert_eq!(said(open), "tenure board set x state=open");
        let pass = [("verdict", "pass"), ("issue", "x"), ("gate", "review")];
        let pass = to().operation("board.gate.judge", pass);
        assert_eq!(said(pass), "tenure board gate pass x review");
        let compat = to()
            .field("compat=proper-lockfile")
            .text(" ")
            .field("owner");
        assert_eq!(said(compat), "--compat proper-lockfile --owner");
        let settings = to()
            .setting("owner")
            .text("; ")
            .setting("store=sqlite:PATH");
        let words = "--owner, or TENURE_OWNER; --store or TENURE_STORE=sqlite:PATH";
        assert_eq!(said(settings.text("")), words);
    }
}
