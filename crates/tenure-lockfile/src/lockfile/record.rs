//! The record that a holder leaves for people: its name, its request, its time and its purpose.
//!
//! A record is true only while its byte is locked (see [`super::layout`]). It is written before
//! that byte is locked, so a process that sees the byte locked sees a whole record, or a record
//! that is being written again, which its checksum shows.
//!
//! The record is a head with length and checksum, and two lines of JSON: the grant, which changes,
//! and the holder, which all locks of a session share and which is prepared once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tenure_core::{
    Asker, Error, Lease, LeaseId, Mode, Owner, Resource, Result, SessionId, Timestamp, Token,
};

use super::layout::RECORD_BYTES_MAX;

/// A holder, as read from a lock file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// The lease.
    pub lease: Lease,
    /// The boot in which the lease was granted.
    pub boot_id: String,
    /// The time when the holder's process was started, in clock ticks since boot.
    pub process_start: u64,
}

/// The first line: the grant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) lease: LeaseId,
    pub(crate) resource: Resource,
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    pub(crate) since: Timestamp,
    /// `None` before the first renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heartbeat: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) purpose: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Value>,
}

/// The second line: the holder.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    owner: Owner,
    session: SessionId,
    pid: u32,
    host: String,
    boot_id: String,
    process_start: u64,
    command: String,
}

/// Returns the line about the holder, ready to be written.
pub(crate) fn holder_line(asker: &Asker, boot_id: &str, process_start: u64) -> Result<Arc<str>> {
    let line = serde_json::to_string(&Holder {
        owner: asker.owner.clone(),
        session: asker.session.clone(),
        // The process id of the asker is not used: it may be from before a fork.
        pid: std::process::id(),
        host: asker.host.clone(),
        boot_id: boot_id.to_owned(),
        process_start,
        command: asker.command.clone(),
    });
    line.map(Arc::from).map_err(unwritable)
}

const HEAD_BYTES: usize = "record 00000 0123456789abcdef\n".len();

/// Appends the record, with its head, to the bytes that will be written.
pub(super) fn encode(grant: &Grant, holder: &str, out: &mut Vec<u8>) -> Result<()> {
    let head_at = out.len();
    out.resize(head_at + HEAD_BYTES, b' ');
    let body_at = out.len();
    serde_json::to_writer(&mut *out, grant).map_err(unwritable)?;
    out.push(b'\n');
    out.extend_from_slice(holder.as_bytes());
    out.push(b'\n');
    let length = out.len() - body_at;
    if HEAD_BYTES + length > RECORD_BYTES_MAX {
        let problem =
            format!("the record of a lock has {length} bytes; shorten purpose or metadata");
        return Err(Error::BadInput(problem));
    }
    let (head, body) = out[head_at..].split_at_mut(HEAD_BYTES);
    head[..7].copy_from_slice(b"record ");
    digits(&mut head[7..12], length as u64, 10);
    digits(&mut head[13..29], checksum(body), 16);
    head[29] = b'\n';
    Ok(())
}

/// Reads a record from the bytes of a slot. Returns `None` if it is not whole.
pub(super) fn decode(slot: &[u8]) -> Option<Record> {
    let head = std::str::from_utf8(slot.get(..HEAD_BYTES)?).ok()?;
    let (length, sum) = head.strip_prefix("record ")?.trim_end().split_once(' ')?;
    let length: usize = length.parse().ok()?;
    let body = slot.get(HEAD_BYTES..HEAD_BYTES + length)?;
    if u64::from_str_radix(sum, 16).ok()? != checksum(body) {
        return None;
    }
    let (grant, holder) = std::str::from_utf8(body).ok()?.split_once('\n')?;
    let grant: Grant = serde_json::from_str(grant).ok()?;
    let holder: Holder = serde_json::from_str(holder).ok()?;
    let asker = Asker {
        session: holder.session,
        owner: holder.owner,
        pid: holder.pid,
        host: holder.host,
        command: holder.command,
        agent: None,
    };
    Some(Record {
        lease: grant.of(asker),
        boot_id: holder.boot_id,
        process_start: holder.process_start,
    })
}

impl Grant {
    /// Returns the lease that was granted to this asker.
    pub(crate) fn of(self, asker: Asker) -> Lease {
        let (id, since) = (self.lease, self.since);
        let mut lease = Lease::granted(id, self.resource, self.mode, self.token, since, asker);
        lease.heartbeat_at = self.heartbeat.unwrap_or(since);
        lease.purpose = self.purpose;
        lease.metadata = self.metadata;
        lease
    }
}

fn unwritable(problem: serde_json::Error) -> Error {
    Error::Internal(format!("a record cannot be written: {problem}"))
}

/// Fills a field with a number, zeros first. Formatting would cost as much as a system call.
pub(super) fn digits(field: &mut [u8], mut number: u64, base: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number % base) as usize];
        number /= base;
    }
}

/// Returns FNV-1a over words of eight bytes, which finds torn and foreign bytes. It is no defence
/// against forgers, which could as well hold the lock.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    let length = bytes.len() as u64;
    words.fold(0xcbf2_9ce4_8422_2325 ^ length, |sum, word| {
        let mixed = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
        // Multiplying moves changes up only; the rotation brings them down again.
        mixed.rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(purpose: &str) -> Grant {
        Grant {
            lease: LeaseId::parse("l1").unwrap(),
            resource: Resource::parse("build").unwrap(),
            mode: Mode::Write,
            token: Token::new(7).unwrap(),
            since: Timestamp::from_millis(1),
            heartbeat: Some(Timestamp::from_millis(2)),
            purpose: Some(purpose.into()),
            metadata: None,
        }
    }

    fn encoded(purpose: &str) -> Vec<u8> {
        let asker = Asker {
            session: SessionId::parse("s1").unwrap(),
            owner: Owner::parse("ana@desk").unwrap(),
            pid: 1,
            host: "desk".into(),
            command: "make \"all\"\u{2028}".into(),
            agent: None,
        };
        let holder = holder_line(&asker, "b", 9).unwrap();
        let mut out = Vec::new();
        encode(&grant(purpose), &holder, &mut out).unwrap();
        out
    }

    fn purpose_of(record: &Record) -> &str {
        record.lease.purpose.as_deref().unwrap()
    }

    #[test]
    fn records_round_trip_over_longer_ones() {
        let mut slot = encoded(&"long ".repeat(50));
        let short = encoded("short");
        slot[..short.len()].copy_from_slice(&short);
        let record = decode(&slot).unwrap();
        assert_eq!(purpose_of(&record), "short");
        assert_eq!(record.lease.pid, std::process::id());
        assert_eq!(record.process_start, 9);
        assert_eq!(record.lease.command, "make \"all\"\u{2028}");
        assert_eq!(record.lease.heartbeat_at, Timestamp::from_millis(2));
    }

    #[test]
    fn a_half_written_record_is_none() {
        let (old, new) = (encoded("one purpose"), encoded("two purpose"));
        assert_eq!(old.len(), new.len());
        for written in 0..new.len() {
            let mut torn = old.clone();
            torn[..written].copy_from_slice(&new[..written]);
            if torn == old || torn == new {
                continue;
            }
            assert_eq!(decode(&torn), None, "after {written} bytes");
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_is_found() {
        let good = encoded("some purpose");
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            let read = decode(&bad);
            // The case of a hex digit in the head is the one bit that changes nothing.
            let same = read
                .as_ref()
                .is_none_or(|read| Some(read) == decode(&good).as_ref());
            assert!(same, "bit {at}");
            assert!(read.is_none() || at / 8 < HEAD_BYTES, "bit {at}");
        }
    }

    #[test]
    fn garbage_is_none() {
        for garbage in [
            &b""[..],
            b"record",
            b"record 99999 0000000000000000\n",
            &[0xff; 100],
        ] {
            assert_eq!(decode(garbage), None);
        }
    }

    #[test]
    fn a_record_that_does_not_fit_is_refused() {
        let mut out = Vec::new();
        let long = grant(&"x".repeat(17_000));
        assert!(encode(&long, "{}", &mut out).is_err());
    }
}
