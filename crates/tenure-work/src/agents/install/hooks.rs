//! Adds hooks to the text of a settings file, and takes out exactly those.

use serde_json::{Value, json};
use tenure::config::WhenUnsure;
use tenure::{Error, Result};

use super::json_text::{Node, insert, on_lines_of, remove};
use tenure_api::agents::Program;

use super::program::{COMMAND, ON_FAILURE, ProgramSettings};

/// The text of a file, and the events that were changed in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Changed {
    /// The text, or `None` if there is to be no file.
    pub text: Option<String>,
    /// The events whose hooks were changed.
    pub events: Vec<&'static str>,
}

/// Adds the hooks that are missing, and gives existing hooks the right way to fail. `old` is the
/// text of the file, if that exists.
pub fn add(
    program: Program,
    when_unsure: WhenUnsure,
    old: Option<&str>,
    path: &str,
) -> Result<Changed> {
    let Some(old) = old else {
        let text = on_lines_of(&whole(program, when_unsure), "  ", "") + "\n";
        let events = program.events().to_vec();
        return Ok(Changed {
            text: Some(text),
            events,
        });
    };
    let root = Node::parse(old);
    let missing = |event: &&&str| ours(program, old, event).is_none();
    let mut events: Vec<&str> = program.events().iter().filter(missing).copied().collect();
    let mut text = if root.is_object() && root.items().is_empty() {
        let whole = whole(program, when_unsure);
        let mut text = old.to_owned();
        for (key, value) in whole.as_object().into_iter().flatten() {
            text = insert(&text, &Node::parse(&text), Some(key), value);
        }
        text
    } else {
        add_each(program, when_unsure, old.to_owned(), &events, path)?
    };
    for event in program.events() {
        if let Some(changed) = with_on_failure(program, when_unsure, &text, event) {
            text = changed;
            events.push(*event);
        }
    }
    Ok(Changed {
        text: Some(text),
        events,
    })
}

/// Returns the text with the right way to fail for a hook of ours, or `None` if it has that.
fn with_on_failure(
    program: Program,
    when_unsure: WhenUnsure,
    text: &str,
    event: &str,
) -> Option<String> {
    let root = Node::parse(text);
    let hook = ours(program, text, event)?.hook_in(&root, event)?;
    let index = hook.items().iter().position(|item| item.key == ON_FAILURE);
    match (program.on_failure(event, when_unsure), index) {
        (Some(_), Some(_)) | (None, None) => None,
        (Some(wanted), None) => Some(insert(text, hook, Some(ON_FAILURE), &wanted.into())),
        (None, Some(index)) => Some(remove(text, hook, index)),
    }
}

fn add_each(
    program: Program,
    when_unsure: WhenUnsure,
    mut text: String,
    events: &[&str],
    path: &str,
) -> Result<String> {
    for event in events {
        let root = Node::parse(&text);
        require(root.is_object(), path, "it", "an object")?;
        let entry = program.entry(event, when_unsure);
        text = match (
            root.get("hooks"),
            root.get("hooks").and_then(|it| it.get(event)),
        ) {
            (None, _) => insert(&text, &root, Some("hooks"), &json!({ *event: [entry] })),
            (Some(hooks), None) => {
                require(hooks.is_object(), path, "hooks", "an object")?;
                insert(&text, hooks, Some(event), &json!([entry]))
            }
            (_, Some(list)) => {
                require(list.is_array(), path, &format!("hooks.{event}"), "a list")?;
                insert(&text, list, None, &entry)
            }
        };
    }
    Ok(text)
}

/// Takes out all hooks of ours, and the containers that were made for them.
pub fn take_out(program: Program, old: &str) -> Changed {
    let mut text = old.to_owned();
    let mut events = Vec::new();
    for event in program.events() {
        let before = events.len();
        while let Some(position) = ours(program, &text, event) {
            let Some(next) = without(&text, event, &position) else {
                events.push(*event);
                return Changed { text: None, events };
            };
            text = next;
            if events.len() == before {
                events.push(*event);
            }
        }
    }
    Changed {
        text: Some(text),
        events,
    }
}

/// The position of a hook: its index in the list of the event, and its index in a group, if it is
/// in one.
struct HookPosition {
    entry: usize,
    in_group: Option<usize>,
}

impl HookPosition {
    fn hook_in<'a>(&self, root: &'a Node, event: &str) -> Option<&'a Node> {
        let list = root.get("hooks")?.get(event)?;
        let entry = &list.items().get(self.entry)?.value;
        match self.in_group {
            Some(index) => Some(&entry.get("hooks")?.items().get(index)?.value),
            None => Some(entry),
        }
    }
}

/// Finds a hook of ours for an event.
fn ours(program: Program, text: &str, event: &str) -> Option<HookPosition> {
    let root = Node::parse(text);
    let is_ours = |hook: &Node| {
        let command = hook.get("command").or_else(|| hook.get("bash"));
        let command = command.and_then(|command| command.string(text));
        let named = format!("{COMMAND} {program}");
        command.is_some_and(|command| command.starts_with(&named))
    };
    let list = root.get("hooks")?.get(event)?;
    let mut entries = list.items().iter().enumerate();
    entries.find_map(|(entry, item)| {
        if is_ours(&item.value) {
            let in_group = None;
            return Some(HookPosition { entry, in_group });
        }
        let group = item.value.get("hooks")?.items();
        let in_group = Some(group.iter().position(|hook| is_ours(&hook.value))?);
        Some(HookPosition { entry, in_group })
    })
}

/// Returns the text without a hook, or `None` if the rest was made with the hook.
fn without(text: &str, event: &str, position: &HookPosition) -> Option<String> {
    let root = Node::parse(text);
    let hooks = root.get("hooks")?;
    let list = hooks.get(event)?;
    let group = list.items().get(position.entry)?.value.get("hooks");
    if let (Some(group), Some(index)) = (group, position.in_group)
        && group.items().len() > 1
    {
        return Some(remove(text, group, index));
    }
    if list.items().len() > 1 || !list.is_made_here(text) {
        return Some(remove(text, list, position.entry));
    }
    let index = |of: &Node, key: &str| of.items().iter().position(|item| item.key == key);
    if hooks.items().len() > 1 || !hooks.is_made_here(text) {
        return Some(remove(text, hooks, index(hooks, event)?));
    }
    // A version after the hooks was made with them: a person writes a version before the hooks.
    let alone = match root.items() {
        [_] => true,
        [first, second] => first.key == "hooks" && second.key == "version",
        _ => false,
    };
    if alone && root.is_made_here(text) {
        return None;
    }
    if alone && root.items().len() == 2 {
        let text = remove(text, &root, 1);
        return Some(remove(&text, &Node::parse(&text), 0));
    }
    Some(remove(text, &root, index(&root, "hooks")?))
}

/// Returns the content of a file that is made for the hooks.
fn whole(program: Program, when_unsure: WhenUnsure) -> Value {
    let events = program.events().iter();
    let entry = |event| json!([program.entry(event, when_unsure)]);
    let hooks = events.map(|event| ((*event).to_owned(), entry(event)));
    let hooks = Value::Object(hooks.collect());
    if program.has_version() {
        json!({"hooks": hooks, "version": 1})
    } else {
        json!({ "hooks": hooks })
    }
}

fn require(holds: bool, path: &str, what: &str, expected: &str) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Error::BadInput(format!(
            "{path}: {what} is not {expected}; nothing is changed"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the hooks, adds them again, and takes them out.
    fn there_and_back(program: Program, old: Option<&str>) -> Option<String> {
        let allow = WhenUnsure::Allow;
        let add = |program, old, path| add(program, allow, old, path);
        let added = add(program, old, "it").unwrap();
        assert_eq!(added.events, program.events());
        let text = added.text.unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        for event in program.events() {
            let list = read["hooks"][event].as_array().unwrap();
            assert_eq!(list.last(), Some(&program.entry(event, allow)), "{text}");
        }
        assert_eq!(add(program, Some(&text), "it").unwrap().events, [""; 0]);
        assert_eq!(
            add(program, Some(&text), "it").unwrap().text,
            Some(text.clone())
        );
        let out = take_out(program, &text);
        assert_eq!(out.events, program.events());
        out.text
    }

    #[test]
    fn every_file_is_as_it_was_after_hooks_came_and_went() {
        for program in Program::ALL {
            assert_eq!(there_and_back(program, None), None);
            let event = program.events()[0];
            for old in [
                "{}".to_owned(),
                "{\n}\n".to_owned(),
                "{\"version\": 1}".to_owned(),
                "{\n  \"version\": 1\n}\n".to_owned(),
                "{\"model\":\"x\",\"hooks\":{}}".to_owned(),
                format!("{{\n\t\"hooks\": {{\n\t\t\"{event}\": []\n\t}},\n\t\"x\": 1\n}}"),
                format!(
                    "{{\n    \"hooks\": {{\"{event}\": [ {{\"command\": \"a\"}} ], \"Other\": [1]}}\n}}\n"
                ),
            ] {
                assert_eq!(
                    there_and_back(program, Some(&old)),
                    Some(old.clone()),
                    "{old}"
                );
            }
        }
    }

    #[test]
    fn hooks_that_are_there_get_what_becomes_of_a_tool_without_an_answer_and_lose_it_again() {
        let claude = Program::Claude;
        let add = |when_unsure, old: Option<&str>| add(claude, when_unsure, old, "it").unwrap();
        let deny = add(WhenUnsure::Deny, None).text.unwrap();
        let read: Value = serde_json::from_str(&deny).unwrap();
        assert_eq!(
            read["hooks"]["PreToolUse"][0]["hooks"][0][ON_FAILURE],
            "block"
        );
        assert_eq!(deny.matches(ON_FAILURE).count(), 1, "{deny}");
        assert_eq!(add(WhenUnsure::Deny, Some(&deny)).events, [""; 0]);
        let allow = add(WhenUnsure::Allow, Some(&deny));
        assert_eq!(allow.events, ["PreToolUse"]);
        assert_eq!(allow.text, add(WhenUnsure::Allow, None).text);
        let again = add(WhenUnsure::Deny, allow.text.as_deref());
        assert_eq!((again.events, again.text), (vec!["PreToolUse"], Some(deny)));
    }

    #[test]
    fn what_a_person_put_beside_ours_stays() {
        let added = add(Program::Claude, WhenUnsure::Deny, None, "it");
        let text = added.unwrap().text.unwrap();
        let own = "\"hooks\": [\n          {\n            \"type\": \"own\"\n          },";
        let mixed = text.replacen("\"hooks\": [", own, 1);
        let left = take_out(Program::Claude, &mixed).text.unwrap();
        let left: Value = serde_json::from_str(&left).unwrap();
        let expected = json!({"hooks": {"SessionStart": [{"hooks": [{"type": "own"}]}]}});
        assert_eq!(left, expected);
    }

    #[test]
    fn a_file_of_another_shape_is_refused() {
        for old in [
            "[]",
            "[1]",
            "{\"hooks\": []}",
            "{\"hooks\": {\"Stop\": {}}}",
        ] {
            let added = add(Program::Claude, WhenUnsure::Allow, Some(old), "it");
            let error = added.unwrap_err();
            assert_eq!(error.class(), tenure::Class::BadInput, "{old}");
        }
    }
}
