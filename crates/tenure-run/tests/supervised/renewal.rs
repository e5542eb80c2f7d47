//! A hold that is renewed while its command runs.

use std::time::{Duration, Instant};

use tenure_os::clock;
use tenure_run::{GRACE, Renewal, Renewed};
use tokio::time::timeout;

use crate::run::context;

const TTL: Duration = Duration::from_secs(3);

/// Returns the reason and the grace when the hold cannot be relied on; `None` if it can for so
/// long.
fn distrusted(renewed: Renewed, time_max: Duration) -> Option<(String, Duration)> {
    let renewal = Renewal::start(context(), TTL, clock::boot_now(), move || renewed.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(async {
        let distrusted = timeout(time_max, renewal.distrusted()).await.ok()?;
        Some((distrusted.reason, distrusted.grace))
    })
}

#[test]
fn what_is_renewed_is_trusted() {
    assert_eq!(distrusted(Renewed::Held, TTL * 5 / 6), None);
}

#[test]
fn what_is_not_needed_any_more_is_not_distrusted() {
    assert_eq!(distrusted(Renewed::Over, TTL * 5 / 6), None);
}

#[test]
fn what_cannot_be_renewed_is_distrusted_after_two_thirds_of_its_time() {
    let begun = Instant::now();
    let failed = Renewed::Failed("the disk is full".into());
    let (reason, grace) = distrusted(failed, TTL * 4).unwrap();
    assert_eq!(reason, "the disk is full");
    assert!(begun.elapsed() >= TTL * 6 / 10, "{:?}", begun.elapsed());
    // The grace ends at five sixths of the time.
    assert!(grace <= TTL / 6, "{grace:?}");
}

#[test]
fn what_is_gone_is_distrusted_at_once_with_the_whole_grace() {
    let gone = Renewed::Gone("it is bob's".into());
    let (reason, grace) = distrusted(gone, TTL * 4).unwrap();
    assert_eq!(reason, "it is bob's");
    assert!(grace <= GRACE && grace > GRACE / 2, "{grace:?}");
}
