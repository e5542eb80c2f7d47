//! The options of a URL that the driver does not know: `sslmode=verify-…`, `sslrootcert`,
//! `lease_ttl`.

use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::{Error, Result, duration};

use super::{Proof, Roots};

/// The bounds of the time that a lease lasts.
const LEASE_TTL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

/// The parameters of a URL that are ours.
#[derive(Default)]
pub(super) struct Options {
    verify: Option<Verify>,
    roots: Option<String>,
    pub(super) lease_ttl: Option<Duration>,
}

enum Verify {
    Authority,
    Name,
}

impl Options {
    /// Takes our parameters out of a URL. Also returns the rest of the URL.
    pub(super) fn split_off(url: &str) -> Result<(String, Options)> {
        let mut options = Options::default();
        let Some((base, query)) = url.split_once('?') else {
            return Ok((url.to_owned(), options));
        };
        let mut rest = Vec::new();
        for part in query.split('&') {
            match part.split_once('=') {
                Some(("sslmode", "verify-ca")) => options.verify = Some(Verify::Authority),
                Some(("sslmode", "verify-full")) => options.verify = Some(Verify::Name),
                Some(("sslrootcert", path)) => {
                    options.roots = Some(decode("sslrootcert", path)?);
                }
                Some(("lease_ttl", text)) => {
                    options.lease_ttl = Some(lease_ttl(&decode("lease_ttl", text)?)?);
                }
                _ => rest.push(part),
            }
        }
        let rest = if rest.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{}", rest.join("&"))
        };
        Ok((rest, options))
    }

    /// Returns the proof that the server must give.
    pub(super) fn proof(&self) -> Result<Proof> {
        let Some(verify) = &self.verify else {
            return match self.roots {
                None => Ok(Proof::None),
                Some(_) => Err(Error::BadInput(
                    "sslrootcert needs sslmode=verify-ca or sslmode=verify-full".into(),
                )),
            };
        };
        let roots = match self.roots.as_deref() {
            Some("system") => Roots::System,
            Some(path) => Roots::File(path.into()),
            None => {
                return Err(Error::BadInput(
                    "sslmode=verify-ca and verify-full need sslrootcert: a file, or system".into(),
                ));
            }
        };
        Ok(match verify {
            Verify::Authority => Proof::Authority(roots),
            Verify::Name => Proof::Name(roots),
        })
    }
}

fn lease_ttl(text: &str) -> Result<Duration> {
    let ttl = duration::parse(text);
    let ttl = ttl.map_err(|problem| Error::BadInput(format!("lease_ttl: {problem}")))?;
    if LEASE_TTL.contains(&ttl) {
        Ok(ttl)
    } else {
        Err(Error::BadInput(format!(
            "lease_ttl={text} is not from 1s to 24h"
        )))
    }
}

/// Undoes the percent-encoding of a parameter.
fn decode(name: &str, text: &str) -> Result<String> {
    let bad = || Error::BadInput(format!("{name} is not percent-encoded as it should be"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| bad())?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ttl(text: &str) -> Result<Option<Duration>> {
        let split = Options::split_off(&format!("postgres://h/d?a=b&lease_ttl={text}&c=d"));
        split.map(|(rest, options)| {
            assert_eq!(rest, "postgres://h/d?a=b&c=d");
            options.lease_ttl
        })
    }

    #[test]
    fn the_time_of_a_lease_is_from_a_second_to_a_day() {
        assert_eq!(ttl("3s").unwrap(), Some(Duration::from_secs(3)));
        assert_eq!(ttl("24h").unwrap(), Some(Duration::from_secs(86_400)));
        for bad in ["999ms", "25h", "3", "", "soon", "%"] {
            let error = ttl(bad).unwrap_err();
            assert!(matches!(error, Error::BadInput(_)), "{bad}: {error:?}");
            assert!(error.to_string().contains("lease_ttl"), "{error}");
        }
        let (rest, options) = Options::split_off("postgres://h/d?lease_ttl=1m").unwrap();
        assert_eq!(rest, "postgres://h/d");
        assert_eq!(options.lease_ttl, Some(Duration::from_secs(60)));
    }
}
