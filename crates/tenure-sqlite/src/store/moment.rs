//! The time of one step, read once: BOOTTIME, which decides, and the wall clock.

use tenure_core::decide::Millis;
use tenure_core::{Result, Timestamp};
use tenure_os::clock;

/// Clocks that differ by no more than this were not set, but read one after the other, or slewed.
const SLEW_MS_MAX: u128 = 1000;

/// The time of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Milliseconds of BOOTTIME: it counts suspend, and cannot be set.
    pub(super) boot: Millis,
    /// The time of the wall clock, for people.
    pub(super) wall: Timestamp,
    /// The boot that `boot` belongs to.
    pub(super) boot_id: &'static str,
}

impl Moment {
    pub(super) fn now() -> Result<Self> {
        Ok(Self {
            boot: clock::boot_now(),
            wall: clock::now(),
            boot_id: clock::boot_id()?,
        })
    }

    /// Converts a time of the wall clock to BOOTTIME of this boot. Only for times of another boot,
    /// which nothing but the wall clock relates to this one.
    pub(super) fn boot_time_of(&self, wall: Timestamp) -> Millis {
        let offset = wall.as_millis().saturating_sub(self.wall.as_millis());
        self.boot.saturating_add_signed(offset)
    }

    /// Returns the wall time to show for a time that is decided by the clock of this boot: the time
    /// as it was written down, unless the wall clock was set since.
    pub(super) fn wall_time_of(&self, boot: Millis, written: Timestamp) -> Timestamp {
        let ahead = i128::from(boot) - i128::from(self.boot);
        let wall = i128::from(self.wall.as_millis()) + ahead;
        let was_set = wall.abs_diff(written.as_millis().into()) > SLEW_MS_MAX;
        match i64::try_from(wall) {
            Ok(wall) if was_set => Timestamp::from_millis(wall),
            _ => written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_another_boot_keep_their_distance_from_now() {
        let now = Moment {
            boot: 5_000,
            wall: Timestamp::from_millis(1_000_000),
            boot_id: "b",
        };
        let at = |millis| now.boot_time_of(Timestamp::from_millis(millis));
        assert_eq!(at(1_002_000), 7_000);
        assert_eq!(at(999_000), 4_000);
        assert_eq!(at(0), 0, "long before this boot");
    }

    #[test]
    fn a_time_is_shown_as_written_unless_the_clock_was_set() {
        let now = Moment {
            boot: 5_000,
            wall: Timestamp::from_millis(1_000_000),
            boot_id: "b",
        };
        let shown = |written| {
            let shown = now.wall_time_of(7_000, Timestamp::from_millis(written));
            shown.as_millis()
        };
        assert_eq!(shown(1_002_000), 1_002_000);
        assert_eq!(shown(1_002_900), 1_002_900, "a slew is none");
        assert_eq!(shown(5_002_000), 1_002_000, "set back");
        assert_eq!(shown(2_000), 1_002_000, "set forward");
    }
}
