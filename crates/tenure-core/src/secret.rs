//! Removes passwords and other secrets from text that is shown or stored.
//!
//! Addresses and command lines come from outside and may be malformed. In doubt too much is removed
//! rather than too little. A secret that neither its name nor its position gives away is not found.

use std::ops::Range;

use crate::request::quoted;

/// The parts of names that tell of a secret, in upper or lower case.
const SECRETS: [&str; 5] = ["password", "passwd", "secret", "api_key", "apikey"];

/// Returns a command line without its secrets: the passwords of addresses, and the values of names
/// that contain `password`, `passwd`, `secret` or `api_key`, or end with `token`. They are written
/// as `NAME=value` or `--name value`, also inside quotes.
pub(crate) fn without_secrets(line: &str) -> String {
    let line = without_passwords(line);
    masked(&line).unwrap_or(line)
}

/// Returns the line with a mark in place of each secret, or `None` if it has no secret.
fn masked(line: &str) -> Option<String> {
    let mut shown = String::new();
    let mut copied = 0;
    let mut is_value = false;
    for (place, word) in words(line) {
        let mark = if is_value {
            Some("…".to_owned())
        } else {
            masked_word(&word)
        };
        is_value = !is_value && is_secret_flag(&word);
        if let Some(mark) = mark {
            shown.push_str(&line[copied..place.start]);
            // A word without quotes, as in a script, needs none now.
            if line[place.clone()] == word {
                shown.push_str(&mark);
            } else {
                shown.push_str(&quoted(&mark));
            }
            copied = place.end;
        }
    }
    (copied > 0).then(|| shown + &line[copied..])
}

/// Returns a word without its secret, or `None` if it has no secret.
///
/// If a word with blanks starts with the name of a secret, all of the rest is removed, since the
/// blanks may be in the value. Any other word with blanks is read as a line, such as a script.
fn masked_word(word: &str) -> Option<String> {
    let mut names = word.match_indices('=').map(|(at, _)| &word[..at]);
    let is_secret = |before: &&str| {
        let name = before.rsplit(|c: char| !is_of_name(c)).next();
        name.is_some_and(is_secret)
    };
    let before = match word.contains(char::is_whitespace) {
        false => names.find(is_secret),
        true => {
            let first = names.next().filter(is_secret);
            match first.filter(|first| first.chars().all(is_of_name)) {
                None => return masked(word),
                first => first,
            }
        }
    };
    before.map(|before| format!("{before}=…"))
}

/// Returns true if a word is an option whose value, the next word, is a secret.
fn is_secret_flag(word: &str) -> bool {
    word.starts_with('-') && word.chars().all(is_of_name) && is_secret(word)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "_-.".contains(c)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    // An option for many tokens, such as `--max-tokens`, has a number as its value.
    name.ends_with("token") || SECRETS.iter().any(|secret| name.contains(secret))
}

/// Returns the words of a line as a shell splits it, and the range of each. A quote that is never
/// closed lasts to the end.
fn words(line: &str) -> Vec<(Range<usize>, String)> {
    let mut words = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut quote = None;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        if c.is_whitespace() && quote.is_none() {
            words.extend(open.take().map(|(start, word)| (start..at, word)));
            continue;
        }
        let (_, word) = open.get_or_insert_with(|| (at, String::new()));
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(closing)) if c == closing => quote = None,
            ('\\', None | Some('"')) => word.extend(chars.next().map(|(_, next)| next)),
            (c, _) => word.push(c),
        }
    }
    words.extend(open.map(|(start, word)| (start..line.len(), word)));
    words
}

/// Returns the text without the password of any URL in it.
///
/// ```
/// let shown = tenure_core::without_passwords("psql postgres://ana:secret@db/x");
/// assert_eq!(shown, "psql postgres://ana@db/x");
/// ```
pub fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = after_scheme(rest) {
        let (before, url) = rest.split_at(at);
        shown.push_str(before);
        let end = url.find(|c: char| c.is_whitespace() || "'\"".contains(c));
        let (url, after) = url.split_at(end.unwrap_or(url.len()));
        shown.push_str(&without_password(url));
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// Returns the address of a store as it may be shown. The text is one address even if it has blanks
/// or quotes, or no scheme.
pub fn shown_address(address: &str) -> String {
    let is_path = ["sqlite:", "file:", "memory:"];
    if is_path.iter().any(|scheme| address.starts_with(scheme)) {
        return address.to_owned();
    }
    let (scheme, rest) = address.split_at(after_scheme(address).unwrap_or(0));
    let shown = format!("{scheme}{}", without_password(rest));
    // The form `host=db password=…`.
    match shown.to_ascii_lowercase().find("password") {
        Some(at) => format!("{}…", &shown[..at]),
        None => shown,
    }
}

/// Returns the position after the scheme of the first URL. After the scheme of a database the
/// slashes may be missing.
fn after_scheme(text: &str) -> Option<usize> {
    let any = text.find("://").map(|at| at + 3);
    let database = ["postgres:", "postgresql:"]
        .into_iter()
        .filter_map(|scheme| {
            let at = text.find(scheme)? + scheme.len();
            let slashes = text[at..].bytes().take_while(|byte| *byte == b'/').count();
            Some(at + slashes)
        });
    database.chain(any).min()
}

/// Removes the password from the part of a URL after its scheme.
fn without_password(url: &str) -> String {
    let (user, rest) = match url.rsplit_once('@').filter(|_| !is_host(url)) {
        Some((credentials, rest)) => {
            let user = credentials.split(':').next().unwrap_or_default();
            (format!("{user}@"), rest)
        }
        None => (String::new(), url),
    };
    let Some((address, options)) = rest.split_once('?') else {
        return user + rest;
    };
    let secret = |option: &&str| {
        let name = option.split('=').next().unwrap_or(option);
        name.to_ascii_lowercase().contains("password")
    };
    let kept: Vec<&str> = options.split('&').filter(|o| !secret(o)).collect();
    match kept.is_empty() {
        true => user + address,
        false => format!("{user}{address}?{}", kept.join("&")),
    }
}

/// Returns true if the text starts with a host, so that a later `@` belongs to an option: there is
/// no `@` before the first `?`, and the part before that is not a user and password.
fn is_host(url: &str) -> bool {
    let Some((address, _)) = url.split_once('?') else {
        return false;
    };
    let host = address.split('/').next().unwrap_or(address);
    let port = host.split_once(':').map_or("", |(_, port)| port);
    !address.contains('@') && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            (
                "postgres://ana:s3cret@db:5432/x",
                "postgres://ana@db:5432/x",
            ),
            ("postgresql://ana@db/x", "postgresql://ana@db/x"),
            (
                "postgres://db:5432/x?sslmode=require",
                "postgres://db:5432/x?sslmode=require",
            ),
            (
                "postgres://db/x?user=ana&password=s3cret&sslmode=require",
                "postgres://db/x?user=ana&sslmode=require",
            ),
            ("postgres://db/x?password=a@s3cret", "postgres://db/x"),
            ("postgres://ana:s3cret/@db/x", "postgres://ana@db/x"),
            ("postgres://ana:x?s3cret@db/x", "postgres://ana@db/x"),
            ("postgres://ana:a@s3cret@db/x", "postgres://ana@db/x"),
            ("postgre://ana:s3cret@db", "postgre://ana@db"),
            ("postgres:ana:s3cret@db", "postgres:ana@db"),
            ("postgresql:/ana:s3cret@db", "postgresql:/ana@db"),
            ("sqlite:/a@b:c", "sqlite:/a@b:c"),
            ("", ""),
        ] {
            assert_eq!(without_passwords(url), shown, "{url}");
        }
    }

    #[test]
    fn an_address_that_is_badly_spelled_is_shown_without_its_password() {
        for (address, shown) in [
            ("postgres://ana:s3 cret@db/x", "postgres://ana@db/x"),
            ("postgres://ana:s3'cret@db/x", "postgres://ana@db/x"),
            ("ana:s3cret@db:5432/x", "ana@db:5432/x"),
            ("host=db password=s3cret user=ana", "host=db …"),
            ("host=db PASSWORD = 's3cret'", "host=db …"),
            (
                "postgres:///x?host=db&password=a@s3cret",
                "postgres:///x?host=db",
            ),
            (
                "advisory:postgres://ana:s3cret@db/x",
                "advisory:postgres://ana@db/x",
            ),
            ("sqlite:/password/a@b:c", "sqlite:/password/a@b:c"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(shown_address(address), shown, "{address}");
        }
    }

    #[test]
    fn every_address_in_a_command_line_is_shown_without_its_password() {
        let line =
            "tenure --store 'postgres://a:s3cret@h/d' run x -- psql postgres://b:s3cret@h/e -c x";
        let shown = without_passwords(line);
        assert!(!shown.contains("s3cret"), "{shown}");
        assert_eq!(
            shown,
            "tenure --store 'postgres://a@h/d' run x -- psql postgres://b@h/e -c x"
        );
    }

    #[test]
    fn secrets_in_a_command_line_are_left_out() {
        for (line, shown) in [
            ("env PGPASSWORD=s3cret psql", "env PGPASSWORD=… psql"),
            ("x --password s3cret -h db", "x --password … -h db"),
            ("x --password=s3cret", "x --password=…"),
            ("x '--password=s3cret s3cret'", "x --password=…"),
            ("x --Db-Token 's3cret s3cret' y", "x --Db-Token … y"),
            ("x --client-secret=s3cret y", "x --client-secret=… y"),
            (
                "psql 'host=db password=s3cret user=a'",
                "psql 'host=db password=… user=a'",
            ),
            (
                "psql \"host=db password='s3cret s3cret' user=a\"",
                "psql 'host=db password=… user=a'",
            ),
            (
                "sh -c 'cd /x; api_token=s3cret make'",
                "sh -c 'cd /x; api_token=… make'",
            ),
            (
                r"sh -c 'a --secret '\''s3cret'\'' b'",
                "sh -c 'a --secret … b'",
            ),
            (
                "sh -c \"sh -c 'x;MY_SECRET=s3cret y'\"",
                r"sh -c 'sh -c '\''x;MY_SECRET=… y'\'''",
            ),
            ("sh -c 'PGPASSWORD=s3cret psql'", "sh -c PGPASSWORD=…"),
            (
                "curl https://h/?a=b&access_token=s3cret",
                "curl https://h/?a=b&access_token=…",
            ),
            ("x PASSWORD='s3cret", "x PASSWORD=…"),
            ("x --token", "x --token"),
            (
                "env AWS_SECRET_ACCESS_KEY=s3cret aws",
                "env AWS_SECRET_ACCESS_KEY=… aws",
            ),
            (
                "x --api-key s3cret --secret-key=s3cret",
                "x --api-key … --secret-key=…",
            ),
        ] {
            assert_eq!(without_secrets(line), shown, "{line}");
        }
    }

    #[test]
    fn a_command_line_without_secrets_stays_as_it_is() {
        for line in [
            "make -j2 'all of it' \"it's\"",
            "don't",
            "x --tokens 5 MAX_TOKENS=5 password",
            "a=b  c \\",
            "",
        ] {
            assert_eq!(without_secrets(line), line);
        }
    }
}
