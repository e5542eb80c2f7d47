//! An operation: a request, and the response to it.

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;

/// One thing that Tenure can do. The value is the request.
pub trait Operation: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// The name by which every surface calls the operation, such as `board.next`.
    const NAME: &'static str;

    /// The type of the answer when the operation was carried out.
    type Response: Serialize + JsonSchema + Send + 'static;

    /// The error of an operation that was not carried out. It becomes a [`Failure`] where it goes
    /// over a wire.
    type Error: std::error::Error + Into<Failure> + Send + 'static;
}

/// The name of an operation, and the schemas of its request and its response.
#[derive(Debug, Serialize)]
pub struct Described {
    /// The name of the operation, such as `board.next`.
    pub name: &'static str,
    /// The JSON schema of the request.
    pub request: Schema,
    /// The JSON schema of the response.
    pub response: Schema,
}

impl Described {
    /// Describes an operation.
    pub fn of<O: Operation>() -> Self {
        Self {
            name: O::NAME,
            request: schema_for!(O),
            response: schema_for!(O::Response),
        }
    }
}

/// Calls a macro with the request types of all operations.
#[macro_export]
macro_rules! for_each_operation {
    ($call:ident) => {
        $call! {
            $crate::board::InitBoard,
            $crate::board::AddIssue,
            $crate::board::ShowIssue,
            $crate::board::ListIssues,
            $crate::board::SetIssue,
            $crate::board::AddNote,
            $crate::board::DeleteIssue,
            $crate::board::DependIssue,
            $crate::board::DefineGate,
            $crate::board::JudgeGate,
            $crate::board::ReadBoardEvents,
            $crate::board::NextIssue,
            $crate::board::ClaimIssue,
            $crate::board::RenewIssue,
            $crate::board::ReleaseIssue,
            $crate::board::FinishIssue,
            $crate::board::VerifyBoard,
            $crate::doc::Read,
            $crate::doc::Write,
            $crate::doc::Update,
            $crate::doc::Clean,
            $crate::leases::Acquire,
            $crate::leases::Find,
            $crate::leases::Renew,
            $crate::leases::Release,
            $crate::leases::Upgrade,
            $crate::leases::Downgrade,
            $crate::leases::Check,
            $crate::leases::Ls,
            $crate::leases::Recover,
            $crate::leases::Break,
            $crate::leases::Audit,
            $crate::ledger::Init,
            $crate::ledger::Append,
            $crate::ledger::Log,
            $crate::ledger::Show,
            $crate::ledger::Verify,
            $crate::ledger::ClaimNode,
            $crate::ledger::ReleaseNode,
            $crate::ledger::ListClaims,
            $crate::ledger::Reap,
            $crate::advisory::Ls,
            $crate::op::Ls,
            $crate::op::Show,
            $crate::publish::Put,
            $crate::publish::Verify,
            $crate::publish::History,
            $crate::agents::Hook,
            $crate::agents::Ls,
            $crate::agents::Plan,
            $crate::agents::Apply,
            $crate::status::Status,
            $crate::doctor::Doctor,
            $crate::doctor::Trust,
        }
    };
}

macro_rules! describe {
    ($($operation:ty,)*) => {
        /// Describes all operations.
        pub fn described() -> Vec<Described> {
            vec![$(Described::of::<$operation>()),*]
        }
    };
}
for_each_operation!(describe);

/// Makes a request type an operation whose errors are those of the core.
macro_rules! operation {
    ($name:literal, $request:ty, $response:ty) => {
        impl $crate::Operation for $request {
            const NAME: &'static str = $name;
            type Response = $response;
            type Error = tenure_core::Error;
        }
    };
}
pub(crate) use operation;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own_and_says_what_its_fields_are_for() {
        let all = described();
        let names: BTreeSet<&str> = all.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), all.len());
        for one in &all {
            let request = serde_json::to_value(&one.request).unwrap();
            assert!(request["description"].is_string(), "{request:#}");
            let fields = request["properties"].as_object().into_iter().flatten();
            for (field, schema) in fields {
                let told = schema["description"].is_string();
                assert!(told, "{} says nothing of {field}", one.name);
            }
        }
    }
}
