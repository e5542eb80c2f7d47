//! The suite. One file for each area; in it, one function for each case.

mod cancellation;
mod case;
mod crash;
mod exclusion;
mod fairness;
mod listing;
mod order;
mod reentry;
mod sharing;
mod timeouts;
mod tokens;
mod upgrade;

use std::panic::{AssertUnwindSafe, catch_unwind};

use case::Case;

use crate::Fixture;
use crate::stage::Stage;
use crate::tell::tell;

/// What a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// Who keeps whom out.
    Exclusion,
    /// Who lets whom in.
    Sharing,
    /// In which order.
    Fairness,
    /// Upgradeable to write, and back.
    Upgrade,
    /// Waits that run out.
    Timeouts,
    /// Futures dropped half-way.
    Cancellation,
    /// A session that asks for what it holds.
    Reentry,
    /// The order of resources, and sets.
    Order,
    /// Fencing numbers.
    Tokens,
    /// Holders and waiters that die or stop.
    Crash,
    /// Who holds, who waits.
    Listing,
}

impl Area {
    /// All areas.
    pub const ALL: [Area; 11] = [
        Area::Exclusion,
        Area::Sharing,
        Area::Fairness,
        Area::Upgrade,
        Area::Timeouts,
        Area::Cancellation,
        Area::Reentry,
        Area::Order,
        Area::Tokens,
        Area::Crash,
        Area::Listing,
    ];

    fn name(self) -> &'static str {
        match self {
            Area::Exclusion => "exclusion",
            Area::Sharing => "sharing",
            Area::Fairness => "fairness",
            Area::Upgrade => "upgrade",
            Area::Timeouts => "timeouts",
            Area::Cancellation => "cancellation",
            Area::Reentry => "re-entry",
            Area::Order => "order",
            Area::Tokens => "tokens",
            Area::Crash => "crash",
            Area::Listing => "listing",
        }
    }

    fn cases(self) -> &'static [Case] {
        match self {
            Area::Exclusion => exclusion::CASES,
            Area::Sharing => sharing::CASES,
            Area::Fairness => fairness::CASES,
            Area::Upgrade => upgrade::CASES,
            Area::Timeouts => timeouts::CASES,
            Area::Cancellation => cancellation::CASES,
            Area::Reentry => reentry::CASES,
            Area::Order => order::CASES,
            Area::Tokens => tokens::CASES,
            Area::Crash => crash::CASES,
            Area::Listing => listing::CASES,
        }
    }

    /// Whether a store may be unable to do a case of it.
    const fn may_skip(self) -> bool {
        match self {
            Area::Exclusion
            | Area::Timeouts
            | Area::Cancellation
            | Area::Reentry
            | Area::Crash
            | Area::Listing => false,
            Area::Sharing | Area::Fairness | Area::Upgrade | Area::Order | Area::Tokens => true,
        }
    }
}

/// Runs all cases of an area, each on a fresh store, and fails if any fails.
pub fn conformance(fixture: &dyn Fixture, area: Area) {
    let mut failed = Vec::new();
    for case in area.cases() {
        if let Some(need) = case.need {
            let name = case.name;
            assert!(area.may_skip(), "{} may never skip {name}", area.name());
            let stage = Stage::new(fixture);
            if !need.is_met(&stage.capabilities()) {
                let (area, store) = (area.name(), fixture.name());
                tell(format!("skip: {area}: {name}: {store} {}", need.why()));
                continue;
            }
        }
        let run = || {
            let stage = Stage::new(fixture);
            (case.run)(&stage);
            // Whatever a case is about, it leaves nothing behind.
            stage.assert_idle();
        };
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            eprintln!("failed: {}: {}", area.name(), case.name);
            failed.push(case.name);
        }
    }
    assert!(
        failed.is_empty(),
        "{} on {}: not so: {}",
        area.name(),
        fixture.name(),
        failed.join(", ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_that_may_not_be_skipped_ask_for_no_capability() {
        for area in Area::ALL.into_iter().filter(|area| !area.may_skip()) {
            let asking = area.cases().iter().find(|case| case.need.is_some());
            assert!(asking.is_none(), "{}", area.name());
        }
    }

    #[test]
    fn every_area_has_cases_and_no_name_twice() {
        let mut names = Vec::new();
        for area in Area::ALL {
            assert!(!area.cases().is_empty(), "{}", area.name());
            names.extend(area.cases().iter().map(|case| case.name));
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
