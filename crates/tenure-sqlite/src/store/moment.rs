//! The time of one step, read once: on the clock that decides, and on the wall.

use tenure_core::decide::Millis;
use tenure_core::{Result, Timestamp};
use tenure_files::clock;

/// Now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Milliseconds of BOOTTIME: suspend counts, and nobody can set it.
    pub(super) boot: Millis,
    /// The time on the wall, for people.
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

    /// When a time on the wall is, or was, on the clock of this boot. Only for times of
    /// another boot: the wall clock is all that leads from one to the other.
    pub(super) fn boot_time_of(&self, wall: Timestamp) -> Millis {
        let offset = wall.as_millis().saturating_sub(self.wall.as_millis());
        self.boot.saturating_add_signed(offset)
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
}
