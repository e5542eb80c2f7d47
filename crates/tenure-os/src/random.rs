//! Random numbers from the kernel: ids that are never drawn twice, and pauses that differ.

use std::cell::RefCell;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::platform::fork_generation;

/// The number of bytes the kernel is asked for at a time. It returns this many at once.
const POOL: usize = 256;

/// Returns random bytes, at most 256 of them.
pub fn bytes<const N: usize>() -> [u8; N] {
    const { assert!(N <= POOL) };
    struct Pool {
        bytes: [u8; POOL],
        used: usize,
        generation: u32,
    }
    thread_local! {
        static BYTES: RefCell<Pool> = const {
            RefCell::new(Pool { bytes: [0; POOL], used: POOL, generation: 0 })
        };
    }
    BYTES.with_borrow_mut(|pool| {
        // A forked child must not draw what its parent draws.
        let generation = fork_generation();
        if POOL - pool.used < N || pool.generation != generation {
            let filled = getrandom(&mut pool.bytes, GetRandomFlags::empty());
            assert_eq!(
                filled,
                Ok(POOL),
                "the kernel returns a few random bytes at once"
            );
            pool.used = 0;
            pool.generation = generation;
        }
        let mut drawn = [0; N];
        drawn.copy_from_slice(&pool.bytes[pool.used..pool.used + N]);
        pool.used += N;
        drawn
    })
}

/// Returns a number from 0 to 1, which spreads the pauses of processes that failed together.
pub fn fraction() -> f64 {
    f64::from(u32::from_ne_bytes(bytes())) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_the_same() {
        let drawn: std::collections::HashSet<[u8; 10]> = (0..1000).map(|_| bytes()).collect();
        assert_eq!(drawn.len(), 1000);
    }

    #[test]
    fn fractions_lie_between_0_and_1_and_differ() {
        let fractions: Vec<f64> = (0..20).map(|_| fraction()).collect();
        assert!(fractions.iter().all(|f| (0.0..=1.0).contains(f)));
        assert!(fractions.iter().any(|f| *f != fractions[0]));
    }
}
