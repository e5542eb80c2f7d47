//! The address of a database: a URL, read once and shown without its password.
//!
//! # Invariants
//!
//! - Nothing shows the password: not [`Display`](fmt::Display), not [`Debug`], no error.
//! - The application name begins with `tenure`, whatever the URL asks for.
//! - An option of the URL that is not understood is an error, never ignored.

mod options;
mod password;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use options::Options;

/// The longest time to reach one host, if the URL does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The proof of a server's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// No proof: the connection is only encrypted, if `sslmode` asks for it.
    None,
    /// A certificate that one of these authorities signed (`verify-ca`).
    Authority(Roots),
    /// Such a certificate, made out to the name of the host (`verify-full`).
    Name(Roots),
}

/// The authorities whose signatures are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Roots {
    /// The authorities that the system trusts (`sslrootcert=system`).
    System,
    /// The authorities in a file of certificates.
    File(PathBuf),
}

/// The address of a database, with everything its URL says about connecting.
#[derive(Clone)]
pub struct Address {
    pub(crate) config: Config,
    pub(crate) proof: Proof,
    pub(crate) lease_ttl: Option<Duration>,
    shown: String,
}

impl Address {
    /// Reads a URL such as `postgres://user:password@host:5432/database?sslmode=verify-full`.
    ///
    /// `sslmode` is `disable`, `prefer` (the default), `require`, `verify-ca` or `verify-full`. The
    /// last two need `sslrootcert`, a file or the word `system`. `lease_ttl` is how long a lease
    /// lasts: `30s`. A URL without a password takes it from `PGPASSWORD`, or from the file
    /// `PGPASSFILE` names, or from `~/.pgpass`.
    ///
    /// # Errors
    ///
    /// `BadInput` for anything but such a URL, and for unknown options; `Configuration` for a file
    /// of passwords that others can read.
    pub fn parse(url: &str) -> Result<Address> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            let problem = "the address of a database begins with postgres://";
            return Err(Error::BadInput(problem.into()));
        }
        refuse_stray_at(url)?;
        let (rest, options) = Options::split_off(url)?;
        // The message of the parser names keys, never values, so no password is in it.
        let config: Result<Config, _> = rest.parse();
        let mut config = config.map_err(|problem| {
            Error::BadInput(format!("bad address of a database: {}", cause(&problem)))
        })?;
        let proof = options.proof()?;
        if proof != Proof::None {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host("/var/run/postgresql");
        }
        if is_local(&config) {
            // A socket of this machine has no TLS, whatever is asked for.
            config.ssl_mode(SslMode::Disable);
        }
        let name = match config.get_application_name() {
            Some(name) if name.starts_with("tenure") => name.to_owned(),
            Some(name) => format!("tenure {name}"),
            None => "tenure".to_owned(),
        };
        config.application_name(name);
        if config.get_password().is_none()
            && let Some(password) = password::find(&config, &|name| std::env::var_os(name))?
        {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let shown = show(&config);
        Ok(Address {
            config,
            proof,
            lease_ttl: options.lease_ttl,
            shown,
        })
    }

    /// Returns this address with more in its application name.
    pub(crate) fn named(&self, what: &str) -> Address {
        let mut address = self.clone();
        let name = self.config.get_application_name().unwrap_or("tenure");
        if name == "tenure" {
            address.config.application_name(format!("tenure {what}"));
        }
        address
    }

    /// Returns the role, as a statement names it. An address without one leaves it to the user's
    /// name.
    pub(crate) fn role(&self) -> String {
        let user = self.config.get_user().map(str::to_owned);
        let user = user.or_else(|| std::env::var("USER").ok());
        user.map_or_else(|| "…".into(), |user| quoted(&user))
    }

    /// Returns the database, as a statement names it.
    pub(crate) fn database(&self) -> String {
        self.config.get_dbname().map_or_else(|| self.role(), quoted)
    }

    /// Returns true if TLS is never used.
    pub(crate) fn is_plain(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Disable
    }
}

/// Returns a name for a statement, in quotes if it would mean another one without them.
fn quoted(name: &str) -> String {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'_' | b'0'..=b'9');
    if name.bytes().all(is_plain) && !name.starts_with(|first: char| first.is_ascii_digit()) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Refuses a password with an unescaped `@`: it would be read as part of a host, and shown as one.
fn refuse_stray_at(url: &str) -> Result<()> {
    let before_options = url.split('?').next().unwrap_or(url);
    let stray =
        before_options.matches('@').count() > 1 || url[before_options.len()..].contains('@');
    if !stray {
        return Ok(());
    }
    let problem = "bad address of a database: an @ in a user or a password is written %40";
    Err(Error::BadInput(problem.into()))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.shown)
    }
}

/// Returns true if every host is a socket of this machine. If the URL has `hostaddr`, the
/// connection goes there.
fn is_local(config: &Config) -> bool {
    let hosts = config.get_hosts();
    !hosts.is_empty()
        && config.get_hostaddrs().is_empty()
        && hosts.iter().all(|host| matches!(host, Host::Unix(_)))
}

/// Returns the cause below an error: the driver's own text only names the step.
fn cause(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

/// Shows the URL without password and without options.
fn show(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string().replace('/', "%2F"),
    });
    let mut hosts: Vec<String> = hosts.collect();
    if hosts.is_empty() {
        hosts.extend(config.get_hostaddrs().iter().map(ToString::to_string));
    }
    for (at, host) in hosts.iter_mut().enumerate() {
        let ports = config.get_ports();
        // One port counts for all hosts.
        if let Some(port) = ports.get(at).or_else(|| ports.first()) {
            host.push_str(&format!(":{port}"));
        }
    }
    let user = config.get_user().map(|user| format!("{user}@"));
    let database = config.get_dbname().or(config.get_user()).unwrap_or("");
    format!(
        "postgres://{}{}/{database}",
        user.unwrap_or_default(),
        hosts.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        Address::parse(url).unwrap()
    }

    #[test]
    fn nothing_shows_the_password() {
        let address = parse("postgres://ann:s3cret@db.example:6000/work?sslmode=require");
        assert_eq!(address.to_string(), "postgres://ann@db.example:6000/work");
        assert!(!format!("{address:?}").contains("s3cret"));
        for bad in [
            "postgres://ann:s3cret@db:notaport/x",
            "postgres://ann:s3cret@db/x?sslmode=perhaps",
            "postgres://ann:s3cret@db/x?colour=blue",
            "postgres://ann:a@s3cret@db/x",
            "postgres:///x?host=db&password=a@s3cret",
        ] {
            let error = Address::parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn names_in_statements_are_quoted_where_they_have_to_be() {
        let address = parse("postgres://Ann-1@h/a%22b");
        assert_eq!(address.role(), "\"Ann-1\"");
        assert_eq!(address.database(), "\"a\"\"b\"");
        assert_eq!(parse("postgres://ann_1@h").database(), "ann_1");
    }

    #[test]
    fn the_application_name_begins_with_tenure() {
        let name = |url| {
            let address: Address = parse(url);
            address.config.get_application_name().map(str::to_owned)
        };
        assert_eq!(name("postgres://a@h/d").unwrap(), "tenure");
        let named = name("postgres://a@h/d?application_name=hooks").unwrap();
        assert_eq!(named, "tenure hooks");
        let kept = name("postgres://a@h/d?application_name=tenure-x").unwrap();
        assert_eq!(kept, "tenure-x");
    }

    #[test]
    fn a_server_is_asked_for_the_proof_that_the_url_asks_for() {
        let proof = |mode: &str| {
            let url = format!("postgres://a@h/d?sslmode={mode}&sslrootcert=/my%20ca.pem");
            parse(&url)
        };
        let roots = Roots::File("/my ca.pem".into());
        assert_eq!(proof("verify-ca").proof, Proof::Authority(roots.clone()));
        assert_eq!(proof("verify-full").proof, Proof::Name(roots));
        let system = parse("postgres://a@h/d?sslrootcert=system&sslmode=verify-full");
        assert_eq!(system.proof, Proof::Name(Roots::System));
        assert_eq!(system.config.get_ssl_mode(), SslMode::Require);
        for bad in ["sslmode=verify-full", "sslmode=require&sslrootcert=/x"] {
            assert!(Address::parse(&format!("postgres://a@h/d?{bad}")).is_err());
        }
    }

    #[test]
    fn the_time_of_a_lease_is_not_for_the_driver() {
        let address = parse("postgres://a@h/d?lease_ttl=3s&sslmode=require");
        assert_eq!(address.lease_ttl, Some(Duration::from_secs(3)));
        assert_eq!(parse("postgres://a@h/d").lease_ttl, None);
        assert!(Address::parse("postgres://a@h/d?lease_ttl=3d").is_err());
    }

    #[test]
    fn other_stores_are_no_address_of_a_database() {
        assert!(Address::parse("sqlite:/x").is_err());
        assert!(Address::parse("host=x dbname=y").is_err());
    }

    #[test]
    fn a_socket_of_this_machine_has_no_tls() {
        let address = parse("postgres://a@%2Frun%2Fpg:5433/d?sslmode=require");
        assert!(address.is_plain());
        assert_eq!(address.to_string(), "postgres://a@%2Frun%2Fpg:5433/d");
    }

    #[test]
    fn a_socket_with_a_hostaddr_is_not_of_this_machine() {
        let query = "hostaddr=192.0.2.1&sslmode=verify-full&sslrootcert=system";
        let address = parse(&format!("postgres://a@%2Frun%2Fpg/d?{query}"));
        assert!(!address.is_plain());
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(&address.proof, &Proof::Name(Roots::System));
    }
}
