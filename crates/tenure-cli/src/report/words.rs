//! The one table of the command's words for the parts of a remedy.

use tenure_core::error::{Part, Remedy};
use tenure_core::request::command_line;

/// The operations whose command has another name.
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
const OPTIONS: [&str; 4] = ["board", "on", "reason", "store"];
const FIELDS: [(&str, &str); 3] = [
    ("board", "--dir"),
    ("confirmed", "--yes"),
    ("reuse", "tenure run --reuse"),
];
const SETTINGS: [(&str, &str); 3] = [
    ("owner", "--owner, or TENURE_OWNER"),
    ("store", "--store or TENURE_STORE"),
    ("trust_flock", "TENURE_TRUST_FLOCK"),
];

/// Returns a remedy in the words of the command.
pub fn in_words(remedy: &Remedy) -> String {
    remedy.in_words(word)
}

/// Puts the words of the command into a remedy.
pub fn render(remedy: &mut Remedy) {
    *remedy = in_words(remedy).into();
}

/// Returns the command's words for a part of a remedy.
pub fn word(part: &Part) -> String {
    let option = |name: &str| format!("--{}", name.replace('_', "-"));
    match part {
        Part::Text(text) => text.clone(),
        Part::Operation {
            operation,
            arguments,
        } => {
            let command = in_table(&COMMANDS, operation, |name| name.replace('.', " "));
            let mut line = format!("tenure {command}");
            for (name, value) in arguments {
                let option = || in_table(&FIELDS, name, option);
                let shown = command_line([value]);
                line += &match &**name {
                    "state" => format!(" {name}={value}"),
                    _ if value == "true" => format!(" {}", option()),
                    name if OPTIONS.contains(&name) => format!(" {} {shown}", option()),
                    _ => format!(" {shown}"),
                };
            }
            line
        }
        Part::Field { field } => in_table(&FIELDS, field, option),
        Part::Setting { setting } => in_table(&SETTINGS, setting, option),
    }
}

fn in_table(table: &[(&str, &str)], name: &str, usual: impl Fn(&str) -> String) -> String {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map_or_else(|| usual(name), |(_, words)| (*words).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_remedy_names_is_told_as_it_is_typed() {
        for (sentence, words) in [
            ("{board.show issue=x1}", "tenure board show x1"),
            (
                "{break lease=a reason=TEXT}",
                "tenure break a --reason TEXT",
            ),
            (
                "{ledger.verify directory=DIR repair=true confirmed=true}",
                "tenure ledger verify DIR --repair --yes",
            ),
            (
                "{board.set issue=x state=open}",
                "tenure board set x state=open",
            ),
            (
                "{board.gate.judge verdict=pass issue=x gate=review}",
                "tenure board gate pass x review",
            ),
            (
                "{agent.apply program=codex}",
                "tenure agent install --write codex",
            ),
            (
                "{.compat} proper-lockfile {.owner}",
                "--compat proper-lockfile --owner",
            ),
            ("{$owner}; {$help}", "--owner, or TENURE_OWNER; --help"),
            (
                "{$store}=sqlite:PATH",
                "--store or TENURE_STORE=sqlite:PATH",
            ),
        ] {
            assert_eq!(in_words(&sentence.into()), words);
        }
        let path = Remedy::of("{ls store}", &["sqlite:/a b"]);
        assert_eq!(in_words(&path), "tenure ls --store 'sqlite:/a b'");
    }
}
