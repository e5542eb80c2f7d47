//! Passwords, left out of what people and records are shown.
//!
//! An address comes from outside and may be malformed, so nothing here relies on its being
//! right: in doubt more is left out.

/// The same text, with the password of every URL in it left out.
///
/// ```
/// let shown = tenure::without_passwords("psql postgres://ana:secret@db/x");
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

/// The address of a store as it may be shown. It is one address whatever stands in it: a blank or a quote does not end it, and
/// a scheme may be missing.
pub fn shown_address(address: &str) -> String {
    let is_path = ["sqlite:", "file:", "memory:"];
    if is_path.iter().any(|scheme| address.starts_with(scheme)) {
        return address.to_owned();
    }
    let (scheme, rest) = address.split_at(after_scheme(address).unwrap_or(0));
    let shown = format!("{scheme}{}", without_password(rest));
    // As in `host=db password=…`.
    match shown.to_ascii_lowercase().find("password") {
        Some(at) => format!("{}…", &shown[..at]),
        None => shown,
    }
}

/// Where the first URL goes on after its scheme. The slashes of a database's may be forgotten.
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

/// What follows the scheme of a URL, without its password.
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

/// Whether it begins with a host, and an `@` further on belongs to an option: there is none
/// before the first `?`, and what stands before that is no user and password.
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
}
