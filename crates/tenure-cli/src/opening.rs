//! Waits for a store to open: a server may restart, be full, or be far away.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tenure::{Error, Resource, Result};
use tenure_run::Signals;
use tokio::time::sleep;

use crate::output::word;

/// The wait after which a person is told of it.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// Opens a store, and tells a person if it takes long.
pub async fn open_and_tell<T>(opening: impl Future<Output = Result<T>>, shown: &str) -> Result<T> {
    tokio::select! {
        biased;
        opened = opening => opened,
        never = tell(shown) => match never {},
    }
}

/// Opens a store to acquire a resource in it. An interrupt ends it without waiting for the server.
pub async fn open_unless_interrupted<T>(
    opening: impl Future<Output = Result<T>>,
    resource: Option<&Resource>,
    signals: &mut Signals,
) -> Result<T> {
    let Some(resource) = resource else {
        return opening.await;
    };
    tokio::select! {
        biased;
        opened = opening => opened,
        _ = signals.interruption() => Err(Error::Interrupted { act: "waiting for", resource: resource.clone() }),
    }
}

async fn tell(shown: &str) -> Infallible {
    sleep(TELL_AFTER).await;
    word(&format!("waiting for {shown} to answer"));
    std::future::pending().await
}
