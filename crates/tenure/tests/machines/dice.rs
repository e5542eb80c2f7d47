//! Random choices that a seed repeats.

use std::ops::Range;
use std::time::Duration;

/// A stream of numbers that is fixed by its seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Makes a stream of its own for each seed and each list of numbers.
    pub fn new(seed: u64, of: &[u64]) -> Self {
        let mut dice = Self(seed);
        for number in of {
            dice.0 = dice.next() ^ *number;
        }
        dice
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Draws a number of milliseconds.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// Is true once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }
}
