//! The wait for a store to open: a server may restart, be full, or be far away.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::time::Duration;

use tenure::{Error, Resource, Result};
use tokio::time::sleep;

use crate::Caller;

/// The wait for a store after which a person is told of it.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// Opens a store for a caller, and tells a person if it takes long. If the store is opened to wait
/// for a resource, a cancellation by the caller ends the opening at once.
pub async fn open<T>(
    opening: impl Future<Output = Result<T>>,
    shown: &str,
    resource: Option<&Resource>,
    caller: &Caller,
) -> Result<T> {
    let cancelled = async {
        match resource {
            Some(resource) => {
                caller.cancel().cancelled().await;
                resource.clone()
            }
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        opened = opening => opened,
        resource = cancelled => Err(Error::interrupted(resource)),
        never = tell(shown, caller) => match never {},
    }
}

async fn tell(shown: &str, caller: &Caller) -> Infallible {
    sleep(TELL_AFTER).await;
    let word = format!("waiting for {shown} to answer");
    caller.observer().word(&word);
    pending().await
}
