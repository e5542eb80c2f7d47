//! The suite: one file for each area, and in it one function for each case.

mod audit;
mod breaking;
mod cancellation;
mod case;
mod crash;
mod exclusion;
mod fairness;
mod keys;
mod leases;
mod listing;
mod offers;
mod order;
mod records;
mod recovery;
mod reentry;
mod sharing;
mod slots;
mod timeouts;
mod tokens;
mod upgrade;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use case::{Case, Need};

use crate::Fixture;
use crate::stage::Stage;
use crate::tell;

/// The subject of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// Locks that keep others out.
    Exclusion,
    /// Locks that let others in.
    Sharing,
    /// The order in which waiters are served.
    Fairness,
    /// Upgrades from upgradeable to write, and downgrades back.
    Upgrade,
    /// Waits that run out.
    Timeouts,
    /// Futures dropped half-way.
    Cancellation,
    /// A session that asks for a lock it holds.
    Reentry,
    /// The order of resources, and sets.
    Order,
    /// Tokens, the fencing numbers of resources.
    Tokens,
    /// Holders and waiters that die or stop.
    Crash,
    /// The list of holders and waiters.
    Listing,
    /// Leases that outlive their session.
    Leases,
    /// Leases that are stale.
    Recovery,
    /// Leases that a person takes away.
    Breaking,
    /// The record of what was done to each lock.
    Audit,
    /// Requests that are made again.
    Keys,
    /// Grants that their waiters do not take up.
    Offers,
    /// Requests that carry a number of holders at once.
    Slots,
    /// Rows above the locks.
    Records,
}

impl Area {
    /// Every area of the suite.
    pub const ALL: [Area; 19] = [
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
        Area::Leases,
        Area::Recovery,
        Area::Breaking,
        Area::Audit,
        Area::Keys,
        Area::Offers,
        Area::Slots,
        Area::Records,
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
            Area::Leases => "leases",
            Area::Recovery => "recovery",
            Area::Breaking => "breaking",
            Area::Audit => "audit",
            Area::Keys => "keys",
            Area::Offers => "offers",
            Area::Slots => "slots",
            Area::Records => "records",
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
            Area::Leases => leases::CASES,
            Area::Recovery => recovery::CASES,
            Area::Breaking => breaking::CASES,
            Area::Audit => audit::CASES,
            Area::Keys => keys::CASES,
            Area::Offers => offers::CASES,
            Area::Slots => slots::CASES,
            Area::Records => records::CASES,
        }
    }

    /// Returns true if a store may be unable to do a case of the area.
    const fn may_skip(self) -> bool {
        match self {
            Area::Exclusion
            | Area::Timeouts
            | Area::Cancellation
            | Area::Reentry
            | Area::Crash
            | Area::Listing => false,
            Area::Sharing | Area::Fairness | Area::Upgrade | Area::Order | Area::Tokens => true,
            // Only some stores have these at all.
            Area::Leases
            | Area::Recovery
            | Area::Breaking
            | Area::Audit
            | Area::Keys
            | Area::Offers
            | Area::Slots
            | Area::Records => true,
        }
    }
}

/// Runs all cases of an area, each on a fresh store, and fails if any fails. Cases that wait for
/// time to pass do so at once, beside the others.
pub fn conformance(fixture: &dyn Fixture, area: Area) {
    let (slow, quick): (Vec<_>, Vec<_>) = possible(fixture, area)
        .into_iter()
        .partition(|case| case.slow);
    let left = Mutex::new(quick.into_iter());
    let next = || left.lock().unwrap().next();
    let one_by_one = || -> Vec<_> {
        let cases = std::iter::from_fn(next);
        cases
            .filter_map(|case| fails(fixture, area, case))
            .collect()
    };
    let mut failed: Vec<_> = std::thread::scope(|scope| {
        let waiting = slow
            .into_iter()
            .map(|case| scope.spawn(move || Vec::from_iter(fails(fixture, area, case))));
        let working = (0..fixture.at_once()).map(|_| scope.spawn(one_by_one));
        let threads: Vec<_> = waiting.chain(working).collect();
        let threads = threads.into_iter();
        threads.flat_map(|thread| thread.join().unwrap()).collect()
    });
    failed.sort_unstable();
    assert!(
        failed.is_empty(),
        "{} on {}: not so: {}",
        area.name(),
        fixture.name(),
        failed.join(", ")
    );
}

/// Returns the cases that a store can do. A case that is skipped is told, with the reason.
fn possible(fixture: &dyn Fixture, area: Area) -> Vec<&'static Case> {
    let stage = Stage::new(fixture);
    let is_met = |need: Need| need.is_met(&stage);
    let (possible, skipped): (Vec<_>, Vec<_>) = area
        .cases()
        .iter()
        .partition(|case| case.need.is_none_or(is_met));
    for need in Need::ALL {
        let names: Vec<_> = skipped
            .iter()
            .filter(|case| case.need == Some(need))
            .map(|case| case.name)
            .collect();
        if !names.is_empty() {
            let (area_name, names) = (area.name(), names.join(", "));
            assert!(area.may_skip(), "{area_name} may never skip {names}");
            let (store, why) = (fixture.name(), need.why());
            tell(format!("skip: {area_name}: {store} {why}: {names}"));
        }
    }
    possible
}

/// Runs a case; returns its name if it fails.
fn fails(fixture: &dyn Fixture, area: Area, case: &Case) -> Option<&'static str> {
    let run = || {
        let stage = Stage::new(fixture);
        (case.run)(&stage);
        // A case of any area leaves nothing behind.
        stage.assert_idle();
    };
    catch_unwind(AssertUnwindSafe(run)).err().map(|_| {
        eprintln!("failed: {}: {}", area.name(), case.name);
        case.name
    })
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
