//! The turns of a session, from the file that the agent's program writes.
//!
//! The format belongs to the program, changes between its versions, and is written late. It is
//! therefore read tolerantly: anything that is not understood is passed over, and nothing here
//! fails.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::Value;

use super::decide::digest;
use super::state::{Context, Speaker};
use super::tolerant_json::{self, Object};

/// The part of a file that is read, its end, in bytes.
const TAIL_BYTES_MAX: u64 = 8 << 20;

/// The longest id of a line that is believed, in bytes.
const UUID_BYTES_MAX: usize = 64;

/// The text of one line of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The line: its uuid, or its place in the file if it has none.
    pub line: String,
    /// The speaker.
    pub by: Speaker,
    /// The texts of the message. A program may send context along with a prompt, as a text of its
    /// own.
    texts: Vec<String>,
}

impl Said {
    #[cfg(test)]
    pub(super) fn of(line: &str, by: Speaker, text: &str) -> Self {
        Self {
            line: line.to_owned(),
            by,
            texts: vec![text.to_owned()],
        }
    }

    /// Returns the whole text of the line.
    pub fn text(&self) -> String {
        self.texts.join("\n")
    }

    /// Returns the digests of the texts that a hook may have reported for this line.
    pub(super) fn digests(&self) -> impl Iterator<Item = String> {
        let all = std::iter::once(digest(&self.text()));
        all.chain(self.texts.iter().map(|text| digest(text)))
    }
}

/// The content of a transcript.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// The turns, in order: every prompt, and the last words of every answer.
    pub said: Vec<Said>,
    /// The tokens that were used.
    pub context: Option<Context>,
}

/// Reads a transcript. A file that cannot be read counts as empty.
pub fn transcript(path: &Path) -> Transcript {
    tail(path).map_or_else(Transcript::default, |(start, bytes)| parse(start, &bytes))
}

/// Returns the end of a file, and the place in the file where that begins.
fn tail(path: &Path) -> Option<(u64, Vec<u8>)> {
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
    Some((start, bytes))
}

fn parse(start: u64, bytes: &[u8]) -> Transcript {
    let mut read = Transcript::default();
    let mut written: HashMap<String, u64> = HashMap::new();
    let mut tokens = None;
    let mut next = start;
    for bytes in bytes.split(|byte| *byte == b'\n') {
        let place = next;
        next += bytes.len() as u64 + 1;
        let Some(Object {
            fields,
            problem: None,
        }) = tolerant_json::object(bytes)
        else {
            continue;
        };
        let line = Value::Object(fields);
        if line["isSidechain"] == true || line["isMeta"] == true {
            continue;
        }
        let message = &line["message"];
        match line["type"].as_str() {
            Some("user") => read.said.extend(said(&line, place, Speaker::User)),
            Some("assistant") => {
                if let Some(said) = said(&line, place, Speaker::Agent) {
                    // Only the last words of an answer count.
                    if read.said.last().is_some_and(|last| last.by == said.by) {
                        read.said.pop();
                    }
                    read.said.push(said);
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
                    let request = request.unwrap_or_else(|| format!("line at {place}"));
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

/// Returns the text of a line at a place of the file, without the output of tools.
fn said(line: &Value, place: u64, by: Speaker) -> Option<Said> {
    let texts: Vec<String> = match &line["message"]["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            let texts = blocks.iter().filter(|block| block["type"] == "text");
            let texts = texts.filter_map(|block| block["text"].as_str());
            texts.map(str::to_owned).collect()
        }
        _ => return None,
    };
    let is_id =
        |id: &&str| (1..=UUID_BYTES_MAX).contains(&id.len()) && !id.contains(char::is_control);
    let uuid = line["uuid"].as_str().filter(is_id).map(str::to_owned);
    let said = Said {
        line: uuid.unwrap_or_else(|| format!("at {place}")),
        by,
        texts,
    };
    (!said.text().trim().is_empty()).then_some(said)
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
{"type":"assistant","uuid":"u2","requestId":"r2","message":{"content":[{"type":"text","text":"last"}],"usage":{"input_tokens":1,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":7}}}
{"type":"user","isMeta":true,"message":{"content":"meta"}}
{"type":"user","message":{"role":"user","content":[{"type":"text","text":"two"}]}}
{"type":"assistant","isSidechain":true,"message":{"content":"side"}}
{"type":"assist"#;
        let read = parse(100, text.as_bytes());
        let said = |said: &Said| (said.line.clone(), said.by, said.text());
        let said: Vec<_> = read.said.iter().map(said).collect();
        let place = |part: &str| format!("at {}", 100 + text.find(part).unwrap());
        let two =
            r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"two""#;
        assert_eq!(
            said,
            [
                (
                    place(r#"{"type":"user","message":{"role":"user","content":"one""#),
                    Speaker::User,
                    "one".into()
                ),
                ("u2".into(), Speaker::Agent, "last".into()),
                (place(two), Speaker::User, "two".into())
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
