//! A scenario with all its crashes, failures and removed syncs, and the line that tells of it.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::enumerate::{Enumeration, Figures};
use super::figures::tell;
use super::run::{Run, run};
use super::{Protocol, Scenario};
use crate::disk::simulated::{Fault, Operation};

/// Tries everything, and panics at the first violation.
pub fn check<P: Protocol>(scenario: &Scenario<P>) {
    check_alike(&[scenario]);
}

/// Checks scenarios in which the protocol makes the same calls from different starts. A sync is
/// needed if one of them needs it.
pub fn check_alike<P: Protocol>(scenarios: &[&Scenario<P>]) {
    let mut syncs: Option<Vec<(Operation, bool)>> = None;
    for scenario in scenarios {
        let mut enumeration = Enumeration::new(scenario);
        let figures = match enumeration.all(Fault::None) {
            Ok(figures) => figures,
            Err(violation) => panic!("{}: {violation}", scenario.name),
        };
        let whole = run(scenario, Fault::None);
        let failures = failures(scenario, &mut enumeration, &whole);
        let found = removed_syncs(scenario, &mut enumeration, &whole);
        tell_scenario(scenario.name, figures, failures, found.len());
        syncs = Some(match syncs {
            None => found,
            Some(syncs) => either(syncs, found),
        });
    }
    let name = scenarios[0].name;
    let syncs = syncs.expect("there is a scenario");
    let superfluous = |(number, (sync, found)): (usize, &(Operation, bool))| {
        (!found).then(|| format!("{number}: {sync}"))
    };
    let superfluous: Vec<_> = syncs.iter().enumerate().filter_map(superfluous).collect();
    assert!(
        superfluous.is_empty(),
        "{name}: nobody needs {superfluous:#?} of {syncs:#?}"
    );
    TOTALS.syncs.fetch_add(syncs.len(), Relaxed);
    tell_totals();
}

/// Joins two lists of syncs: a sync is found needed if one of them found it so.
fn either(one: Vec<(Operation, bool)>, other: Vec<(Operation, bool)>) -> Vec<(Operation, bool)> {
    assert_eq!(one.len(), other.len(), "not alike: {one:#?} and {other:#?}");
    let either = |((sync, found), (_, or_found))| (sync, found || or_found);
    one.into_iter().zip(other).map(either).collect()
}

/// Lets every operation fail, as on a full disk and as on a broken one.
fn failures<P: Protocol>(
    scenario: &Scenario<P>,
    enumeration: &mut Enumeration<'_, P>,
    whole: &Run<P::World>,
) -> usize {
    let operations = whole.disk.operations();
    let matters = |(_, operation): &(usize, Operation)| (scenario.failure_matters)(operation);
    let operations = operations.into_iter().enumerate().filter(matters);
    let mut failures = 0;
    for (number, _) in operations {
        for errno in [Errno::NOSPC, Errno::IO] {
            if let Err(violation) = enumeration.failure(Fault::Fail(number, errno)) {
                panic!("{}: {violation}", scenario.name);
            }
            failures += 1;
        }
    }
    failures
}

/// Ignores every sync of the protocol in turn, and says whether a violation was found.
fn removed_syncs<P: Protocol>(
    scenario: &Scenario<P>,
    enumeration: &mut Enumeration<'_, P>,
    whole: &Run<P::World>,
) -> Vec<(Operation, bool)> {
    let count = scenario
        .tried
        .checked_sub(1)
        .map_or(0, |last| whole.syncs[last]);
    let operations = whole.disk.operations().into_iter();
    let syncs = operations.filter(|asked| asked.call.is_sync()).take(count);
    let ignored = |(number, sync)| {
        let found = enumeration.all(Fault::IgnoreSync(number)).is_err();
        (sync, found)
    };
    let matters = |(_, sync): &(usize, Operation)| (scenario.sync_matters)(sync);
    syncs.enumerate().filter(matters).map(ignored).collect()
}

/// The sum of all scenarios of this process.
struct Totals {
    crashes: AtomicUsize,
    states: AtomicUsize,
    syncs: AtomicUsize,
}

static TOTALS: Totals = Totals {
    crashes: AtomicUsize::new(0),
    states: AtomicUsize::new(0),
    syncs: AtomicUsize::new(0),
};

fn tell_scenario(name: &str, figures: Figures, failures: usize, syncs: usize) {
    let Figures {
        crashes,
        states,
        different,
        recovery_crashes,
        recovery_states,
    } = figures;
    TOTALS
        .crashes
        .fetch_add(crashes + recovery_crashes, Relaxed);
    TOTALS.states.fetch_add(states + recovery_states, Relaxed);
    tell(format!(
        "simulated disk: {name}: {crashes} crash points, {states} states, {different} different; of their \
         recoveries {recovery_crashes} crash points, {recovery_states} states; {failures} failed \
         operations; {syncs} syncs removed"
    ));
}

/// Tells the totals so far. The last line of this kind counts all scenarios.
fn tell_totals() {
    let of = |total: &AtomicUsize| total.load(Relaxed);
    let (crashes, states) = (of(&TOTALS.crashes), of(&TOTALS.states));
    let syncs = of(&TOTALS.syncs);
    tell(format!(
        "simulated disk: so far {crashes} crash points, {states} states; {syncs} syncs removed, each found"
    ));
}
