//! The guard of heavy commands, which must go through a slot.

use tenure_work::agents::event::{EventKind, HookEvent};
use tenure_work::agents::guard::{CommandRule, instead};

use super::Words;
use crate::agents::sandbox;
use crate::{Caller, Service};

/// Returns the reason why a command must not be run as it is, or `None` if it may.
pub fn denied(
    service: &Service,
    caller: &Caller,
    event: &HookEvent,
    words: &Words,
) -> Option<String> {
    let commands = &service.guards().commands;
    if commands.is_empty() || event.kind != EventKind::BeforeTool {
        return None;
    }
    let line = event.shell_command()?;
    let rule = |(command, slot): (&String, &String)| CommandRule::new(command, slot);
    let rules: Vec<CommandRule> = commands.iter().map(rule).collect();
    let (instead, rule) = match instead(&line, &rules) {
        Ok(instead) => instead?,
        Err(problem) => {
            words.add(format!(
                "the command is not guarded, as it cannot be read: {problem}"
            ));
            return None;
        }
    };
    if let Some(directory) = sandbox::slots_out_of_reach(service.environment()) {
        return Some(format!(
            "{} goes through slot {} here, and slots are counted in {}, which cannot be written here: {}. Then try again.",
            rule.shown(),
            rule.slot,
            directory.display(),
            caller.in_words(sandbox::how_to_allow(Some(event.program), &directory)),
        ));
    }
    let order = match caller.around().leases.is_empty() {
        true => "",
        false => {
            " You run under tenure run, which may hold locks: slots are taken before them, so if it is refused for the order, \
             ask a person to start you without tenure run, or under it with the slot."
        }
    };
    Some(format!(
        "{} goes through slot {} here, so that not all agents run it at once.{order} Run this instead:\n{instead}",
        rule.shown(),
        rule.slot,
    ))
}
