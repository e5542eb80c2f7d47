//! The keys PostgreSQL knows advisory locks by: two numbers of 32 bits, or one of 64.
//!
//! The two forms never meet: the pair (0, 7) and the number 7 are two locks.
//!
//! A name becomes a number by BLAKE2b with a digest of 4 or 8 bytes, read as a signed big-endian
//! number. Other programs use 32 bits; among 10,000 names two are equal with a chance of 1 in 86,
//! and then share a lock. 64 bits are for names of our own.

use std::fmt;

use blake2::digest::consts::{U4, U8};
use blake2::{Blake2b, Digest};
use tenure_core::{Error, LockContext, Mode, Resource, Result};

use super::{LockEntry, Namespace};

/// The key of an advisory lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A namespace and a number in it, which other programs may use, too.
    Pair(Namespace, i32),
    /// One number of 64 bits, for a name of our own.
    Name64(i64),
}

/// Returns the number of a name in 32 bits, as other programs make it.
pub fn name_to_i32(name: &str) -> i32 {
    i32::from_be_bytes(Blake2b::<U4>::digest(name.as_bytes()).into())
}

/// Returns the number of a name in 64 bits, for names of our own.
fn name_to_i64(name: &str) -> i64 {
    i64::from_be_bytes(Blake2b::<U8>::digest(name.as_bytes()).into())
}

impl Key {
    /// Returns the key of a name in a namespace, in the 32 bits that other programs use.
    pub fn named(namespace: Namespace, name: &str) -> Key {
        Key::Pair(namespace, name_to_i32(name))
    }

    /// Returns the key of a name of our own.
    pub fn of_name(name: &str) -> Key {
        Key::Name64(name_to_i64(name))
    }

    /// Returns the key of a holder or a waiter.
    pub fn of(entry: &LockEntry) -> Key {
        match entry.namespace {
            // The number of a key with a namespace has 32 bits.
            Some(namespace) => Key::Pair(namespace, entry.entity_id as i32),
            None => Key::Name64(entry.entity_id),
        }
    }

    /// Returns the key that `pg_locks` shows, whose columns are unsigned.
    pub(crate) fn from_columns(classid: u32, objid: u32, objsubid: i16) -> Key {
        match objsubid {
            2 => Key::Pair(Namespace::new(classid.cast_signed()), objid.cast_signed()),
            _ => Key::Name64((u64::from(classid) << 32 | u64::from(objid)).cast_signed()),
        }
    }

    /// Returns the number of the key's form, as in `pg_locks.objsubid`.
    pub(crate) fn form(self) -> i16 {
        match self {
            Key::Name64(_) => 1,
            Key::Pair(..) => 2,
        }
    }

    /// Returns the key as one number, unique within its form.
    pub(crate) fn bits(self) -> i64 {
        match self {
            Key::Name64(number) => number,
            Key::Pair(namespace, id) => {
                let high = u64::from(namespace.get().cast_unsigned()) << 32;
                (high | u64::from(id.cast_unsigned())).cast_signed()
            }
        }
    }

    /// Returns the lock as messages name it, in its one spelling: `advisory:NAMESPACE/ID`, or
    /// `advisory:NUMBER` for a name of our own. A lease on `agent:7` is another lock.
    ///
    /// # Errors
    ///
    /// No key is known to fail: digits make a resource.
    pub fn resource(self) -> Result<Resource> {
        let id = match self {
            Key::Pair(namespace, id) => format!("{namespace}/{id}"),
            Key::Name64(number) => number.to_string(),
        };
        Resource::new("advisory", id).map_err(|problem| Error::Internal(problem.to_string()))
    }

    /// Returns the context that errors about this key name.
    ///
    /// # Errors
    ///
    /// Errors of [`resource`](Key::resource).
    pub fn context(self, mode: Mode, store: impl Into<String>) -> Result<Box<LockContext>> {
        let (resource, location) = (self.resource()?, format!("advisory lock {self}"));
        Ok(Box::new(LockContext::new(resource, mode, store, location)))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Pair(namespace, id) => write!(f, "({namespace}, {id})"),
            Key::Name64(number) => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_numbers_that_other_programs_make_of_them() {
        assert_eq!(name_to_i32(""), 309_448_485);
        assert_eq!(name_to_i32("agent"), -1_649_234_938);
        assert_eq!(name_to_i32("hello"), -362_346_761);
        assert_eq!(name_to_i32("agent:1"), 1_741_165_440);
        assert_eq!(name_to_i32("test"), 1_955_328_281);
    }

    #[test]
    fn the_long_number_of_a_name_stays_what_it_is() {
        assert_eq!(name_to_i64("tenure"), 5_998_605_703_646_211_025);
        assert_ne!(name_to_i64("a"), name_to_i64("b"));
    }

    #[test]
    fn a_key_survives_the_unsigned_columns_of_the_server() {
        let pairs = [
            (0, 0),
            (1, 42),
            (-1, -2),
            (i32::MIN, i32::MAX),
            (7, i32::MIN),
        ];
        for (namespace, id) in pairs {
            let key = Key::Pair(Namespace::new(namespace), id);
            let columns = (namespace.cast_unsigned(), id.cast_unsigned());
            assert_eq!(Key::from_columns(columns.0, columns.1, 2), key);
            assert_eq!(key.bits() >> 32, i64::from(namespace));
        }
        for number in [0, 1, -1, i64::MIN, i64::MAX] {
            let bits = number.cast_unsigned();
            let (high, low) = ((bits >> 32) as u32, (bits & 0xffff_ffff) as u32);
            assert_eq!(Key::from_columns(high, low, 1), Key::Name64(number));
        }
    }
}
