//! The turns of a session, from the file that the agent's program writes.
//!
//! The format belongs to the program, changes between its versions, and is written late. So it is read tolerantly: what is not understood is
//! passed over, and nothing here fails.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::Value;

use super::state::{Context, Speaker};

/// Only the end of a longer file is read, in bytes.
const TAIL_BYTES_MAX: u64 = 8 << 20;

/// The content of a transcript.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// The turns, in order: every prompt, and the last words of every answer.
    pub said: Vec<(Speaker, String)>,
    /// The tokens that were used.
    pub context: Option<Context>,
}

/// Reads a transcript. One that cannot be read says nothing.
pub fn transcript(path: &Path) -> Transcript {
    tail(path).map_or_else(Transcript::default, |text| parse(&text))
}

fn tail(path: &Path) -> Option<String> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path);
    let mut file = opened.ok()?;
    let found = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let start = found.len().saturating_sub(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(text: &str) -> Transcript {
    let mut read = Transcript::default();
    let mut written: HashMap<String, u64> = HashMap::new();
    let mut tokens = None;
    for (number, line) in text.lines().enumerate() {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if line["isSidechain"] == true || line["isMeta"] == true {
            continue;
        }
        let message = &line["message"];
        match line["type"].as_str() {
            Some("user") => {
                if let Some(text) = text_of(&message["content"]) {
                    read.said.push((Speaker::User, text));
                }
            }
            Some("assistant") => {
                if let Some(text) = text_of(&message["content"]) {
                    // Only the last words of an answer count.
                    if read
                        .said
                        .last()
                        .is_some_and(|(by, _)| *by == Speaker::Agent)
                    {
                        read.said.pop();
                    }
                    read.said.push((Speaker::Agent, text));
                }
                let usage = &message["usage"];
                let count = |name: &str| usage[name].as_u64().unwrap_or(0);
                if usage.is_object() {
                    let output = count("output_tokens");
                    tokens = Some(
                        count("input_tokens")
                            + count("cache_read_input_tokens")
                            + count("cache_creation_input_tokens")
                            + output,
                    );
                    // A request repeats its usage over several lines.
                    let request = line["requestId"].as_str().map(str::to_owned);
                    let request = request.unwrap_or_else(|| format!("line {number}"));
                    let known = written.entry(request).or_default();
                    *known = output.max(*known);
                }
            }
            _ => {}
        }
    }
    read.context = tokens.map(|tokens| Context {
        tokens,
        written: written.values().sum(),
    });
    read
}

/// Returns the text of a message, without what tools said.
fn text_of(content: &Value) -> Option<String> {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_and_last_words_are_read_and_the_rest_is_passed_over() {
        let text = r#"{"type":"summary","summary":"x"}
not json
{"type":"user","message":{"role":"user","content":"one"}}
{"type":"assistant","requestId":"r1","message":{"content":[{"type":"thinking","thinking":"hm"}],"usage":{"input_tokens":10,"output_tokens":5}}}
{"type":"assistant","requestId":"r1","message":{"content":[{"type":"text","text":"first"}],"usage":{"input_tokens":10,"output_tokens":5}}}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"out"}]}}
{"type":"assistant","requestId":"r2","message":{"content":[{"type":"text","text":"last"}],"usage":{"input_tokens":1,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":7}}}
{"type":"user","isMeta":true,"message":{"content":"meta"}}
{"type":"user","message":{"role":"user","content":[{"type":"text","text":"two"}]}}
{"type":"assistant","isSidechain":true,"message":{"content":"side"}}
{"type":"assist"#;
        let read = parse(text);
        let said: Vec<_> = read
            .said
            .iter()
            .map(|(by, text)| (*by, text.as_str()))
            .collect();
        assert_eq!(
            said,
            [
                (Speaker::User, "one"),
                (Speaker::Agent, "last"),
                (Speaker::User, "two")
            ]
        );
        let context = Context {
            tokens: 31,
            written: 12,
        };
        assert_eq!(read.context, Some(context));
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(transcript(directory.path()), Transcript::default());
        assert_eq!(
            transcript(&directory.path().join("none")),
            Transcript::default()
        );
    }
}
