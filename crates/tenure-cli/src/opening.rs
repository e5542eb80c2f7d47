//! Waiting for a store to open: a server may have no room, or be far away.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tenure::{Error, Resource, Result};
use tokio::time::sleep;

use crate::report::word;
use crate::signals::Signals;

/// Whoever waits hears after this what for.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// Opens a store to take a resource in it. Whoever interrupts it need not wait for the server.
pub async fn opened<T>(
    opening: impl Future<Output = Result<T>>,
    shown: &str,
    resource: Option<&Resource>,
    signals: &mut Signals,
) -> Result<T> {
    let Some(resource) = resource else {
        return opening.await;
    };
    tokio::select! {
        biased;
        opened = opening => opened,
        _ = signals.interruption() => Err(Error::Interrupted { resource: resource.clone() }),
        never = tell(shown) => match never {},
    }
}

async fn tell(shown: &str) -> Infallible {
    sleep(TELL_AFTER).await;
    word(&format!("waiting for {shown} to answer"));
    std::future::pending().await
}
