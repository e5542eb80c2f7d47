//! Carries out an operation: as a typed call, or by its name.

use std::future::Future;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tenure_api::{Failure, Operation};
use tenure_core::Error;

use crate::{Caller, Service};

/// Carries out one operation.
pub trait Handle<O: Operation> {
    /// Carries out the operation, if the caller may ask for it.
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
            /// of its form, and the failures of the operation itself.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Surroundings;
    use serde_json::json;
    use tenure::Owner;
    use tenure::store_choice::Environment;
    use tenure_core::Class;

    /// A service in a directory of its own.
    struct Site {
        directory: tempfile::TempDir,
        service: Service,
        caller: Caller,
    }

    impl Site {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let surroundings = Surroundings {
                environment: Environment::new(directory.path().to_owned(), 0),
                store: Some("memory:".into()),
                addresses: Vec::new(),
            };
            Self {
                directory,
                service: Service::new(surroundings).unwrap(),
                caller: Caller::new(Owner::parse("ana@desk").unwrap(), "test"),
            }
        }

        fn path(&self, name: &str) -> String {
            self.directory.path().join(name).display().to_string()
        }

        async fn call(&self, name: &str, request: Value) -> Result<String, Failure> {
            let called = self.service.call(name, request, &self.caller).await?;
            Ok(called.get().to_owned())
        }
    }

    #[tokio::test]
    async fn a_document_is_written_changed_and_read_by_the_names_of_operations() {
        let site = Site::new();
        let file = site.path("a.json");
        let text = "{\n\t\"n\": 1e400\n}\n";
        std::fs::write(&file, text).unwrap();
        let read = site.call("doc.read", json!({ "files": [file] }));
        let read = read.await.unwrap();
        assert!(read.ends_with(",\"document\":{\"n\":1e400}}"), "{read}");
        let version = serde_json::from_str::<Value>(&read.replace("1e400", "1")).unwrap();
        let update =
            |expect: &Value| json!({ "file": file, "content": { "n": 2 }, "expect": expect });
        let updated = site.call("doc.update", update(&version["version"]));
        assert!(updated.await.unwrap().starts_with("{\"version\":\""));
        let found = std::fs::read_to_string(&file).unwrap();
        assert_eq!(found, "{\n\t\"n\": 2\n}\n");
        let again = site.call("doc.update", update(&version["version"]));
        assert_eq!(again.await.unwrap_err().kind, Class::Conflict);
        let written = site.call(
            "doc.write",
            json!({ "file": site.path("b.json"), "content": [1] }),
        );
        written.await.unwrap();
        let both = json!({ "files": [file, site.path("b.json")] });
        let both = site.call("doc.read", both).await.unwrap();
        assert!(
            both.ends_with("\"document\":[1]}],\"next\":null}"),
            "{both}"
        );
        let cleaned = site.call("doc.clean", json!({ "file": file })).await;
        assert_eq!(cleaned.unwrap(), "{\"removed\":[],\"next\":null}");
    }

    #[tokio::test]
    async fn a_ledger_is_made_and_claimed_in_by_the_names_of_operations() {
        let site = Site::new();
        let directory = site.path("p");
        let call = async |name: &str, mut request: Value| {
            request["directory"] = directory.clone().into();
            site.call(name, request).await
        };
        call("ledger.init", json!({})).await.unwrap();
        let appended = call("ledger.append", json!({ "event": { "type": "x" } }));
        assert_eq!(appended.await.unwrap(), "{\"sequence\":1}");
        let log = call("ledger.log", json!({ "type": "x" })).await.unwrap();
        let event = "{\"sequence\":1,\"event\":{\"type\":\"x\"}}";
        assert_eq!(log, format!("{{\"events\":[{event}],\"next\":null}}"));
        let claimed = call("ledger.claim", json!({ "node": "1.2" }))
            .await
            .unwrap();
        assert!(
            claimed.contains("\"owner\":\"ana@desk\",\"token\":2,"),
            "{claimed}"
        );
        assert!(
            claimed.ends_with("\"state\":\"held\"}],\"next\":null}"),
            "{claimed}"
        );
        let again = call("ledger.claim", json!({ "node": "1.2" })).await;
        assert_eq!(again.unwrap_err().kind, Class::Conflict);
        call("ledger.release", json!({ "node": "1.2" }))
            .await
            .unwrap();
        let none = call("ledger.claims", json!({})).await.unwrap();
        assert_eq!(none, "{\"claims\":[],\"next\":null}");
        let unknown = call("ledger.forget", json!({})).await;
        assert_eq!(unknown.unwrap_err().kind, Class::NotFound);
    }
}
