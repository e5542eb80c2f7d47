//! Decides whether two addresses name the same store.
//!
//! A store is remembered by its address, without links, user, password and options: a database is
//! the same store for every user and by every way to connect.

use std::fs;
use std::path::{Path, PathBuf};

use tenure::shown_address;
use tenure_postgres::Address;

/// The default port, which an address need not name.
const PORT: &str = ":5432";

/// Returns the spelling by which a store is remembered.
pub fn identity(url: &str) -> String {
    if let Some((scheme, path)) = location_of(url) {
        return format!("{scheme}:{}", without_links(path).display());
    }
    if is_server(url) {
        server(url)
    } else {
        shown_address(url)
    }
}

/// Returns true if two addresses name the same store, even if they are spelled differently.
pub fn is_same_store(a: &str, b: &str) -> bool {
    a == b || identity(a) == identity(b)
}

/// Returns true if the store at an address exists, so that opening it does not make it.
pub fn is_there(url: &str) -> bool {
    match location_of(url) {
        // Opening an address without a path reports what is wrong with it.
        Some((_, path)) => path.as_os_str().is_empty() || !matches!(path.try_exists(), Ok(false)),
        None => true,
    }
}

/// Returns true if a store is a server, whose address may have a password in it.
pub fn is_server(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn location_of(url: &str) -> Option<(&str, &Path)> {
    let (scheme, path) = url.split_once(':')?;
    matches!(scheme, "file" | "sqlite").then(|| (scheme, Path::new(path)))
}

/// Returns hosts, ports and the database of an address. An address that cannot be read is returned
/// as it may be shown; it names no store anyway.
fn server(url: &str) -> String {
    let shown = match Address::parse(url) {
        Ok(address) => address.to_string(),
        Err(_) => shown_address(url),
    };
    let rest = shown.split_once("://").map_or(&*shown, |(_, rest)| rest);
    let rest = rest.split('?').next().unwrap_or(rest);
    let rest = rest.rsplit('@').next().unwrap_or(rest);
    let (hosts, database) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let hosts = hosts.split(',').map(|host| {
        let name = host.strip_suffix(PORT);
        name.unwrap_or(host)
    });
    let hosts: Vec<&str> = hosts.collect();
    format!("postgres://{}{database}", hosts.join(","))
}

/// Returns a path without links, as far as it exists, so that a store has the same path before and
/// after it is made.
fn without_links(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        let rest = path.strip_prefix(above);
        if let (Ok(found), Ok(rest)) = (fs::canonicalize(above), rest) {
            return if rest.as_os_str().is_empty() {
                found
            } else {
                found.join(rest)
            };
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_store_is_remembered_without_links_whether_it_is_there_yet_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("real");
        fs::create_dir(&real).unwrap();
        let link = directory.path().join("link");
        symlink("real", &link).unwrap();
        let expected = format!("sqlite:{}", real.join("new/t.db").display());
        let url = format!("sqlite:{}", link.join("new/t.db").display());
        assert_eq!(identity(&url), expected);
        fs::create_dir(real.join("new")).unwrap();
        fs::write(real.join("new/t.db"), "").unwrap();
        assert_eq!(identity(&url), expected);
    }

    #[test]
    fn a_database_is_remembered_without_who_is_logged_in_and_how() {
        for (url, kept) in [
            ("postgres://ana:secret@db/x", "postgres://db/x"),
            ("postgresql://ana@db:5432/x", "postgres://db/x"),
            (
                "postgres://bo@db:6000/x?sslmode=require",
                "postgres://db:6000/x",
            ),
            (
                "postgres://db/x?user=ana&password=p@q&lease_ttl=3s",
                "postgres://db/x",
            ),
            ("postgres://a@%2Frun%2Fpg/x", "postgres://%2Frun%2Fpg/x"),
        ] {
            assert_eq!(identity(url), kept, "{url}");
        }
        let bad = identity("postgres://ana:secret@db/x?colour=blue");
        assert!(!bad.contains("secret"), "{bad}");
    }

    #[test]
    fn one_store_is_one_however_it_is_spelled() {
        assert!(is_same_store("memory:", "memory:"));
        assert!(is_same_store("file:/usr", "file:/usr/bin/.."));
        assert!(!is_same_store("file:/usr", "file:/etc"));
        assert!(is_same_store(
            "sqlite:/etc/passwd",
            "sqlite:/usr/../etc/passwd"
        ));
        assert!(!is_same_store("sqlite:/usr", "file:/usr"));
        assert!(!is_same_store("file:/no-such-a", "file:/no-such-b"));
        assert!(is_same_store(
            "postgres://a:b@db/x",
            "postgres://a@db:5432/x"
        ));
        assert!(!is_same_store("postgres://a@db/x", "postgres://a@db/y"));
    }

    #[test]
    fn a_store_that_would_have_to_be_made_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().display();
        assert!(is_there(&format!("file:{here}")));
        assert!(!is_there(&format!("file:{here}/none")));
        assert!(!is_there(&format!("sqlite:{here}/none.db")));
        assert!(is_there("postgres://db/x"));
    }
}
