//! The values on the command line, one reader each. Malformed values are refused here, before any
//! store is touched.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenure::leases::{TTL_MAX, TTL_MIN};
use tenure::{Error, Mode, Resource, Timestamp, clock, duration};
use tenure_api::doc::Expect;
pub use tenure_api::text::Slot;
use tenure_api::text::{TokenOf, Wanted};
use tenure_core::audit::REASON_BYTES_MAX;
use tenure_service::file_path;

/// Reads a resource that is to be locked, with its own mode or without.
pub fn parse_wanted(text: &[u8]) -> Result<Wanted, String> {
    let (name, mode) = Wanted::split(text)?;
    let resource = parse_lockable(name)?;
    Ok(Wanted { resource, mode })
}

/// Reads a resource. The path of a file is made absolute and clean, with its links followed, so
/// that every spelling of a path meets the guard of edits there.
pub fn parse_resource(text: &[u8]) -> Result<Resource, String> {
    let resource = Resource::parse_bytes(text).map_err(|error| error.to_string())?;
    if resource.kind() != "file" {
        return Ok(resource);
    }
    let here = std::env::current_dir().ok();
    file_path::absolute(resource, here.as_deref()).map_err(|error| error.to_string())
}

/// Reads the beginning of a resource, as [`parse_resource`] does.
pub fn parse_prefix(text: &str) -> Result<String, String> {
    match text.strip_prefix("file:") {
        Some(path) if !path.is_empty() => {
            let resource = parse_resource(text.as_bytes())?;
            // A closing slash asks for all in a directory, and not for names that only begin like
            // it.
            let is_directory = path.ends_with('/') && !resource.as_str().ends_with('/');
            Ok(format!("{resource}{}", if is_directory { "/" } else { "" }))
        }
        _ if text.is_empty() => Err("a beginning of nothing; leave it out to see all".into()),
        _ => Ok(text.to_owned()),
    }
}

/// Reads a resource that can be locked. A slot and a pool cannot.
pub fn parse_lockable(name: &[u8]) -> Result<Resource, String> {
    let resource = parse_resource(name)?;
    if Slot::is_kind_of(&resource) {
        let (kind, id) = (resource.kind(), resource.id());
        return Err(format!(
            "{kind}s are not among the locks; use: tenure run --{kind} {id}:N"
        ));
    }
    Ok(resource)
}

/// Reads `RESOURCE#N`, the token of a grant.
pub fn parse_token_of(text: &[u8]) -> Result<TokenOf, String> {
    let (name, token) = TokenOf::split(text)?;
    let resource = parse_resource(name)?;
    Ok(TokenOf { resource, token })
}

/// Reads the version that a document must have, or `absent`.
pub fn parse_expect(text: &str) -> Result<Expect, String> {
    text.parse()
        .map_err(|problem: Error| format!("{problem}, or `absent`"))
}

/// Reads a document, checks it, and gives it a newline at the end.
pub fn parse_document(text: &str) -> Result<String, String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map_err(|error| format!("not JSON: {error}"))?;
    Ok(text.trim().to_owned() + "\n")
}

/// Reads a value that need not be UTF-8.
pub fn bytes<T, E>(parse: fn(&[u8]) -> Result<T, E>) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    OsStringValueParser::new().try_map(move |text| parse(text.as_bytes()))
}

/// Reads one of the words by which JSON calls a value.
pub fn word_of<T>(
    words: impl IntoIterator<Item = impl Into<PossibleValue>>,
) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value::<T>(word.into()))
}

pub fn parse_mode() -> impl TypedValueParser<Value = Mode> {
    word_of(Mode::ALL.map(Mode::as_str))
}

pub fn parse_wait(text: &str) -> Result<Duration, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the unit is missing; write {text}s for seconds"));
    }
    duration::parse(text).map_err(|error| error.to_string())
}

pub fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse_wait(text)?;
    match (TTL_MIN..=TTL_MAX).contains(&ttl) {
        true => Ok(ttl),
        false => Err("a lease or a claim lasts from 1s to 24h".into()),
    }
}

/// Reads `KEY=VALUE`, one fact about the subject of an operation.
pub fn parse_with(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("it is KEY=VALUE, such as project=atlas")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Reads the cursor of `ls`, which holds a blank. A cursor at the beginning of the second list is
/// `1.`.
pub fn parse_cursor(text: &str) -> Result<String, String> {
    match text.contains(' ') || text == "1." {
        true => Ok(text.to_owned()),
        false => Err("take it from `next` of the page before, and quote it".into()),
    }
}

/// Reads the cursor of the audit: the number of an entry.
pub fn parse_audit_cursor(text: &str) -> Result<String, String> {
    match text.parse::<u64>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("take it from `next` of the page before".into()),
    }
}

/// Reads a point in time, or the time that has passed since it.
pub fn parse_since(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let wrong = |_| "a time is like 2026-01-31T12:00:00Z, or how long ago, such as 1h".to_owned();
    let ago = duration::parse(text).map_err(wrong)?;
    let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
    let then = clock::now().as_millis().saturating_sub(ago);
    Ok(Timestamp::from_millis(then))
}

pub fn parse_purpose(text: &str) -> Result<String, String> {
    let checked = tenure::request::check_notes(Some(text), None);
    checked.map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

pub fn parse_meta(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let checked = tenure::request::check_notes(None, Some(&value));
    checked.map_err(|error| error.to_string())?;
    Ok(value)
}

pub fn parse_reason(text: &str) -> Result<String, String> {
    let most = REASON_BYTES_MAX;
    if text.trim().is_empty() {
        return Err("say why, in words that others understand later".into());
    }
    if text.len() > most || text.chars().any(char::is_control) {
        return Err(format!(
            "a reason is at most {most} bytes of printable text"
        ));
    }
    Ok(text.to_owned())
}

pub fn parse_limit(text: &str) -> Result<usize, String> {
    let limit = text
        .parse()
        .ok()
        .filter(|limit| (1..=100_000).contains(limit));
    limit.ok_or_else(|| "a limit is a whole number from 1 to 100000".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_cut_at_the_last_equals_sign_only_if_one_follows() {
        let wanted = |text: &str| parse_wanted(text.as_bytes());
        let read = wanted("map:a/b=read").unwrap();
        assert_eq!(
            (read.resource.as_str(), read.mode),
            ("map:a/b", Some(Mode::Read))
        );
        assert_eq!(wanted("x").unwrap().mode, None);
        assert!(wanted("x=y").is_err(), "a bare = is not allowed in an id");
        assert!(wanted("x=y=read").is_err());
        assert!(wanted("=read").is_err());
        assert_eq!(
            wanted("x%3Dread").unwrap().resource.as_str(),
            "name:x%3Dread"
        );
    }

    #[test]
    fn a_word_that_is_no_mode_is_called_so() {
        for text in ["x=Write", "x=bad", "x="] {
            let problem = parse_wanted(text.as_bytes()).unwrap_err();
            assert!(problem.starts_with("there is no mode"), "{problem}");
            assert!(problem.contains("read, write and upgradeable"), "{problem}");
            assert!(problem.contains("%3D"), "{problem}");
        }
    }

    #[test]
    fn a_token_is_cut_at_the_last_number_sign() {
        let token = |text: &str| parse_token_of(text.as_bytes());
        let deploy = token("deploy#7").unwrap();
        assert_eq!(
            (deploy.resource.as_str(), deploy.token.get()),
            ("name:deploy", 7)
        );
        for text in ["deploy", "deploy#", "#7", "deploy#x", "deploy#-1", "a#b#7"] {
            assert!(token(text).is_err(), "{text}");
        }
        assert!(token("deploy").unwrap_err().contains("deploy#7"));
    }

    #[test]
    fn a_version_or_its_absence_can_be_expected() {
        assert_eq!(parse_expect("absent"), Ok(Expect::Absent));
        let version = "ab".repeat(32);
        assert!(matches!(parse_expect(&version), Ok(Expect::Version(_))));
        let problem = parse_expect("latest").unwrap_err();
        assert!(
            problem.contains("64 hexadecimal") && problem.contains("absent"),
            "{problem}"
        );
    }

    #[test]
    fn a_document_on_the_command_line_must_be_json_and_keeps_its_spelling() {
        assert_eq!(
            parse_document(" {\"n\": 1.50}"),
            Ok("{\"n\": 1.50}\n".into())
        );
        assert!(parse_document("{n: 1}").unwrap_err().contains("not JSON"));
    }

    #[test]
    fn a_wait_without_a_unit_is_told_which_to_write() {
        assert!(parse_wait("5").unwrap_err().contains("5s"));
        assert_eq!(parse_wait("5s"), Ok(Duration::from_secs(5)));
    }

    #[test]
    fn a_lease_lasts_neither_too_short_nor_too_long() {
        for text in ["1s", "15m", "24h"] {
            assert!(parse_ttl(text).is_ok(), "{text}");
        }
        for text in ["999ms", "0s", "25h"] {
            assert!(parse_ttl(text).unwrap_err().contains("1s to 24h"), "{text}");
        }
    }

    #[test]
    fn since_is_a_time_or_how_long_ago() {
        let time = parse_since("2026-01-31T12:00:00Z").unwrap();
        assert_eq!(time.to_string(), "2026-01-31T12:00:00.000Z");
        let then = parse_since("1h").unwrap();
        let ago = clock::now().since(then);
        assert!((3600..3660).contains(&ago.as_secs()), "{ago:?}");
        assert!(parse_since("yesterday").unwrap_err().contains("1h"));
    }

    #[test]
    fn a_reason_is_words() {
        assert!(parse_reason("the machine is gone").is_ok());
        for text in ["", "  ", "a\u{1b}[2J", &"x".repeat(501)] {
            assert!(parse_reason(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_cursor_is_told_from_a_name() {
        assert!(parse_cursor("name:x l1").is_ok() && parse_cursor("1.").is_ok());
        assert!(parse_cursor("name:x").is_err() && parse_cursor("").is_err());
    }
}
