//! Carries out an operation: as a typed call, or by its name.

use std::future::Future;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tenure_api::{Failure, Operation};
use tenure_core::Error;

use crate::{Caller, Service};

/// Carries out one operation.
pub trait Handle<O: Operation> {
    /// Carries it out for a caller.
    fn handle(
        &self,
        request: O,
        caller: &Caller,
    ) -> impl Future<Output = Result<O::Response, O::Error>> + Send;
}

macro_rules! call_by_name {
    ($($operation:ty,)*) => {
        impl Service {
            /// Carries out the operation of a name: JSON in, JSON out.
            ///
            /// # Errors
            ///
            /// `not_found` for a name that no operation has, `bad_input` for a request that is not
            /// of its form, and whatever the operation itself fails with.
            pub async fn call(
                &self,
                name: &str,
                request: Value,
                caller: &Caller,
            ) -> Result<Box<RawValue>, Failure> {
                $(if name == <$operation as Operation>::NAME {
                    let read = serde_json::from_value::<$operation>(request);
                    let request = read.map_err(|error| {
                        Failure::from(Error::BadInput(format!("bad request for {name}: {error}")))
                    })?;
                    let response = Box::pin(self.handle(request, caller)).await;
                    let response = response.map_err(Into::<Failure>::into)?;
                    let shown = to_raw_value(&response);
                    return Ok(shown.expect("a response is always serialisable"));
                })*
                Err(Error::NotFound(format!("there is no operation {name:?}")).into())
            }
        }
    };
}
tenure_api::for_each_operation!(call_by_name);
