//! The password for a URL without one: `PGPASSWORD`, else the file `PGPASSFILE` names, else
//! `~/.pgpass`.
//!
//! A line of the file is `host:port:database:user:password`. `*` is any, `\` takes the next
//! character as it is, `#` begins a remark, and the first line that fits counts. The host of a
//! socket is its directory, or `localhost`; with a `hostaddr`, which uses no socket, it is that
//! address.
//!
//! # Invariants
//!
//! - A file that others can read is not used: the connection that needs it is refused.
//! - A password of one host is never sent to another: with several hosts it must be the same for
//!   all.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tenure_core::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The longest file of passwords.
const BYTES_MAX: u64 = 1 << 20;

/// The function that reads a variable of the environment.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns the password for an address that has none of its own.
pub(super) fn find(config: &Config, variable: Variable<'_>) -> Result<Option<Vec<u8>>> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(password) = set("PGPASSWORD") {
        return Ok(Some(password.into_encoded_bytes()));
    }
    let file = set("PGPASSFILE").map(PathBuf::from);
    let file = file.or_else(|| set("HOME").map(|home| Path::new(&home).join(".pgpass")));
    let Some(file) = file else {
        return Ok(None);
    };
    let Some((text, metadata)) = read(&file)? else {
        return Ok(None);
    };
    let user = config.get_user().map(str::to_owned);
    let user = user.or_else(|| set("USER")?.into_string().ok());
    let Some(password) = look_up(&text, config, &user.unwrap_or_default()) else {
        return Ok(None);
    };
    if metadata.permissions().mode() & 0o077 != 0 {
        let file = file.display();
        return Err(Error::configuration(
            format!("{file} has passwords, and others can read it: it is not used"),
            format!("chmod 600 {file}"),
        ));
    }
    Ok(Some(password))
}

/// Returns the text of the file, or `None` if there is none. Only a plain file is read.
fn read(path: &Path) -> Result<Option<(String, Metadata)>> {
    let failed = |error| Error::io("read", path, error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(Some((
        String::from_utf8_lossy(&bytes).into_owned(),
        metadata,
    )))
}

/// Returns the password that fits every host.
fn look_up(text: &str, config: &Config, user: &str) -> Option<Vec<u8>> {
    let database = config.get_dbname().unwrap_or(user);
    let (hosts, ports) = (config.get_hosts(), config.get_ports());
    let mut found: Option<Vec<u8>> = None;
    for (at, host) in hosts.iter().enumerate() {
        let names = match host {
            Host::Tcp(name) => vec![name.clone()],
            Host::Unix(path) => match config.get_hostaddrs().get(at) {
                Some(number) => vec![number.to_string()],
                None => vec![path.display().to_string(), "localhost".to_owned()],
            },
        };
        let port = ports.get(at).or_else(|| ports.first()).unwrap_or(&5432);
        let port = port.to_string();
        let fits = |fields: &[String]| {
            let same = |field: &str, value: &str| field == "*" || field == value;
            names.iter().any(|name| same(&fields[0], name))
                && same(&fields[1], &port)
                && same(&fields[2], database)
                && same(&fields[3], user)
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut entries = lines.map(fields).filter(|fields| fields.len() == 5);
        let password = entries.find(|entry| fits(entry))?[4].clone().into_bytes();
        if found.as_ref().is_some_and(|other| *other != password) {
            return None;
        }
        found = Some(password);
    }
    found
}

/// Returns the fields of a line. All after the fourth colon is one field.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        let taken = match c {
            '\\' => rest.next(),
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            other => Some(other),
        };
        if let (Some(field), Some(c)) = (fields.last_mut(), taken) {
            field.push(c);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    /// Returns the password that is found with these variables.
    fn found(url: &str, variables: &[(&str, &str)]) -> Result<Option<String>> {
        let config: Config = url.parse().unwrap();
        let variable = |name: &str| {
            let set = variables.iter().find(|(known, _)| *known == name);
            set.map(|(_, value)| OsString::from(value))
        };
        let found = find(&config, &variable)?;
        Ok(found.map(|bytes| String::from_utf8(bytes).unwrap()))
    }

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".pgpass");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (directory, path)
    }

    #[test]
    fn the_variable_comes_before_the_file() {
        let (_directory, path) = file("*:*:*:*:filed", 0o600);
        let both = [("PGPASSWORD", "said"), ("PGPASSFILE", path.as_str())];
        assert_eq!(found("postgres://a@h/d", &both).unwrap().unwrap(), "said");
        let empty = [("PGPASSWORD", ""), ("PGPASSFILE", path.as_str())];
        assert_eq!(found("postgres://a@h/d", &empty).unwrap().unwrap(), "filed");
        assert_eq!(found("postgres://a@h/d", &[]).unwrap(), None);
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        let text = "# a remark\nh:5432:d:b:of b\nh:5432:d:a:it\\:s \\\\:mine\n*:*:*:a:any\n";
        let (directory, _) = file(text, 0o600);
        let home = directory.path().to_str().unwrap();
        let home = [("HOME", home), ("USER", "ann")];
        let of = |url| found(url, &home).unwrap();
        assert_eq!(of("postgres://a@h/d").unwrap(), "it:s \\:mine");
        assert_eq!(of("postgres://b@h/d").unwrap(), "of b");
        assert_eq!(of("postgres://a@h:6000/d").unwrap(), "any");
        assert_eq!(of("postgres://c@h/d"), None);
        assert_eq!(of("postgres://h/d"), None);
    }

    #[test]
    fn a_socket_is_its_directory_or_localhost() {
        let (_directory, path) = file("/run/pg:*:*:*:one\nlocalhost:*:*:*:two", 0o600);
        let file = [("PGPASSFILE", path.as_str())];
        let of = |url| found(url, &file).unwrap().unwrap();
        assert_eq!(of("postgres://a@%2Frun%2Fpg/d"), "one");
        assert_eq!(of("postgres://a@%2Frun%2Fother/d"), "two");
    }

    #[test]
    fn the_password_of_a_socket_is_not_sent_to_a_hostaddr() {
        let text = "/run/pg:*:*:*:one\nlocalhost:*:*:*:two\n192.0.2.1:*:*:*:three";
        let (_directory, path) = file(text, 0o600);
        let file = [("PGPASSFILE", path.as_str())];
        let of = |number| {
            found(
                &format!("postgres://a@%2Frun%2Fpg/d?hostaddr={number}"),
                &file,
            )
        };
        assert_eq!(of("192.0.2.1").unwrap().unwrap(), "three");
        assert_eq!(of("192.0.2.2").unwrap(), None);
    }

    #[test]
    fn a_password_of_one_host_is_not_sent_to_another() {
        let (_directory, path) = file("h1:*:*:*:one\nh2:*:*:*:two\nh3:*:*:*:one", 0o600);
        let file = [("PGPASSFILE", path.as_str())];
        let of = |url| found(url, &file).unwrap();
        assert_eq!(of("postgres://a@h1,h2/d"), None);
        assert_eq!(of("postgres://a@h1,h4/d"), None);
        assert_eq!(of("postgres://a@h1,h3/d").unwrap(), "one");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_what_to_do() {
        let (_directory, path) = file("h:*:*:*:s3cret", 0o640);
        let file = [("PGPASSFILE", path.as_str())];
        let error = found("postgres://a@h/d", &file).unwrap_err();
        assert!(matches!(error, Error::Configuration { .. }), "{error:?}");
        assert!(
            error.remedy().to_string().contains("chmod 600"),
            "{error:?}"
        );
        assert!(!format!("{error:?}").contains("s3cret"));
        assert_eq!(found("postgres://a@other/d", &file).unwrap(), None);
    }
}
