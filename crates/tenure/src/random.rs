//! Random numbers from the kernel: ids nobody else has, and pauses that differ.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};
use tenure_core::{Error, LeaseId, Result, SessionId};
use tenure_files::clock;

/// A new lease id.
pub(crate) fn lease_id() -> Result<LeaseId> {
    Ok(LeaseId::new_at(clock::now(), bytes()?))
}

/// A new session id.
pub(crate) fn session_id() -> Result<SessionId> {
    Ok(SessionId::new_at(clock::now(), bytes()?))
}

/// A number from 0 to 1. Only spreads pauses, so a kernel without random numbers
/// costs the spread and nothing else.
pub(crate) fn fraction() -> f64 {
    let number = bytes::<4>().map_or(u32::MAX, u32::from_ne_bytes);
    f64::from(number) / f64::from(u32::MAX)
}

fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                let source = io::Error::from(errno);
                return Err(Error::Internal(format!("no random numbers: {source}")));
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ() {
        assert_ne!(lease_id().unwrap(), lease_id().unwrap());
        assert_ne!(session_id().unwrap(), session_id().unwrap());
    }

    #[test]
    fn fractions_lie_between_0_and_1_and_differ() {
        let fractions: Vec<f64> = (0..20).map(|_| fraction()).collect();
        assert!(fractions.iter().all(|f| (0.0..=1.0).contains(f)));
        assert!(fractions.iter().any(|f| *f != fractions[0]));
    }
}
