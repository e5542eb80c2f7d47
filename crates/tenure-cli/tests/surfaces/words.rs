//! What is below the command says what is so, and names nothing that only the command has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tenure_api::operation::{Described, described};

/// Files whose strings name a flag, a command line or a variable, each for a reason.
const ALLOWED: &[(&str, &str)] = &[
    // A coding agent that is told by its hook has a shell.
    ("tenure-service/src/agents/hook/", "told to agents"),
    (
        "tenure-work/src/agents/guard/",
        "told to agents, and the options of other programs",
    ),
    (
        "tenure-work/src/agents/install/",
        "the hook itself, and marks in files",
    ),
    // They say where a value came from.
    ("tenure/src/config.rs", "variables"),
    ("tenure/src/store_choice.rs", "variables"),
    // Command lines that are run.
    ("tenure-service/src/doctor/exclusion.rs", "run"),
    ("tenure-service/src/doctor/sandbox.rs", "run"),
    ("tenure-service/src/doctor/hooks/mod.rs", "run"),
    // What listings show as the command of a watcher.
    ("tenure-service/src/agents/watch/mod.rs", "shown"),
    ("tenure/src/url.rs", "an option of cargo"),
    ("tenure-os/src/crashes/figures.rs", "a variable of tests"),
];
/// What every call has that its request does not, and the title in a new issue.
const OF_CALLS: [&str; 5] = ["owner", "reuse", "store", "title", "with"];
/// Settings that are settings of surfaces.
const SETTINGS: [&str; 4] = ["help", "owner", "store", "trust_flock"];

#[test]
fn no_string_below_the_command_names_a_flag_a_command_line_or_a_variable() {
    let described = described();
    let commands = described
        .iter()
        .map(|one| one.name.split('.').next().unwrap());
    let commands: BTreeSet<&str> = commands.chain(["run", "lock", "unlock"]).collect();
    let names_one = |text: &str| {
        let flag = |at: usize| {
            let before = text[..at].chars().next_back();
            let after = text[at + 2..].chars().next();
            !before.is_some_and(|it| it.is_alphanumeric() || it == '-')
                && after.is_some_and(|it| it.is_ascii_lowercase())
        };
        let command = |at: usize| {
            let rest = &text[at + "tenure ".len()..];
            let end = rest.find(|it: char| !it.is_ascii_lowercase());
            commands.contains(&rest[..end.unwrap_or(rest.len())])
        };
        text.contains("TENURE_")
            || text.match_indices("--").any(|(at, _)| flag(at))
            || text.match_indices("tenure ").any(|(at, _)| command(at))
    };
    let mut found = Vec::new();
    for (file, text) in sources() {
        if !ALLOWED.iter().any(|(allowed, _)| file.starts_with(allowed)) {
            let named = strings(&text).into_iter().filter(|text| names_one(text));
            found.extend(named.map(|text| format!("{file}: {text}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_remedies_name_is_an_operation_with_its_fields_or_a_known_setting() {
    let fields: BTreeMap<&str, BTreeSet<String>> = described().iter().map(fields_of).collect();
    let is_field = |name: &str| fields.values().any(|fields| fields.contains(name));
    let mut named = 0;
    for (file, text) in sources() {
        for sentence in strings(&text) {
            for part in sentence
                .split('{')
                .skip(1)
                .filter_map(|it| it.split_once('}'))
            {
                let part = part.0;
                let (name, arguments) = part.split_once(' ').unwrap_or((part, ""));
                let mut arguments = arguments.split_whitespace();
                let is_known = match (name.strip_prefix('.'), name.strip_prefix('$')) {
                    (Some(field), _) => is_field(field) || OF_CALLS.contains(&field),
                    (_, Some(setting)) => SETTINGS.contains(&setting),
                    _ => match fields.get(name) {
                        Some(fields) => arguments.all(|argument| {
                            let name = argument.split('=').next().unwrap();
                            fields.contains(name) || OF_CALLS.contains(&name)
                        }),
                        // A name with a dot could be nothing else; others are values of `format!`.
                        None => name.contains('=') || !name.contains('.') || name.contains(':'),
                    },
                };
                assert!(is_known, "{file}: {{{part}}} in {sentence:?}");
                named += usize::from(name.starts_with(['.', '$']) || fields.contains_key(name));
            }
        }
    }
    assert!(named > 60, "{named}");
}

/// Returns the name of an operation, and the fields of its request.
fn fields_of(operation: &Described) -> (&'static str, BTreeSet<String>) {
    let request = serde_json::to_value(&operation.request).unwrap();
    let fields = request["properties"].as_object().cloned();
    let fields = fields.unwrap_or_default().into_iter().map(|(name, _)| name);
    (operation.name, fields.collect())
}

/// Returns the files of all crates below the command, without their tests.
fn sources() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("tenure-cli") && !path.ends_with("tenure-testkit") {
            add_sources(&path.join("src"), crates, &mut found);
        }
    }
    assert!(found.len() > 300, "{}", found.len());
    found
}

fn add_sources(directory: &Path, crates: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_sources(&path, crates, found);
        } else if !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let name = path.strip_prefix(crates).unwrap().display().to_string();
            found.push((name, code.to_owned()));
        }
    }
}

/// Returns the strings in a source, without what is in comments.
fn strings(source: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), source);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        rest = if from.starts_with("//") {
            from.split_once('\n').map_or("", |(_, after)| after)
        } else if from.starts_with("'\"'") || from.starts_with("'\\\"'") {
            &from[from[1..].find('\'').unwrap() + 2..]
        } else if let Some(text) = from.strip_prefix('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let is_raw = before[..before.len() - hashes].ends_with('r');
            let end = if is_raw {
                text.find(&format!("\"{}", "#".repeat(hashes))).unwrap()
            } else {
                end_of_string(text)
            };
            found.push(joined(&text[..end]));
            &text[end + 1..]
        } else {
            &from[1..]
        };
    }
    found
}

/// Returns where a string ends that is no raw one.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    text.find(|it| {
        let ends = it == '"' && !is_escaped;
        is_escaped = it == '\\' && !is_escaped;
        ends
    })
    .unwrap()
}

/// Returns a string whose lines are joined by a backslash at their ends.
fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |joined, line| joined + line.trim_start())
}
