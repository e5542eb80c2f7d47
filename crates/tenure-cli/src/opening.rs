//! Waits for a store to open: a server may restart, be full, or be far away.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tenure::{Reply, Result};
use tokio::time::sleep;

use crate::output::word;

/// The wait after which a person is told of it.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// Opens a store, and tells a person if it takes long.
pub async fn open_and_tell<T>(
    opening: impl Future<Output = Result<T>> + Send,
    shown: &str,
) -> Result<T> {
    // Boxed as what it is, or every command would be as deep as the opening of every store.
    let opening: Reply<'_, T> = Box::pin(opening);
    tokio::select! {
        biased;
        opened = opening => opened,
        never = tell(shown) => match never {},
    }
}

async fn tell(shown: &str) -> Infallible {
    sleep(TELL_AFTER).await;
    word(&format!("waiting for {shown} to answer"));
    std::future::pending().await
}
