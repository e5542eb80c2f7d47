//! The leases that one `run` passes on to the next, as text that fits into a variable.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tenure::{Lease, Timestamp};

/// The longest text with all fields, in bytes: the kernel takes no variable longer than 128 KiB. In
/// a longer text, fields that are only for people are left out.
const BYTES_MAX: usize = 96 * 1024;

/// A lease of an outer `run`, and its store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outer {
    /// The lease that is held.
    #[serde(flatten)]
    pub lease: Lease,
    /// The address of its store.
    pub store: String,
}

/// The leases of all outer `run`s, as they are passed on: `{"leases":[…]}`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outers {
    /// The leases, those of the innermost `run` first.
    pub leases: Vec<Outer>,
}

impl Outers {
    /// Returns the text that is passed on to the next `run`.
    pub fn to_json(&self) -> String {
        let whole = serde_json::to_string(self).expect("leases are always serialisable");
        if whole.len() <= BYTES_MAX {
            whole
        } else {
            self.shortest()
        }
    }

    /// Returns the shortest text, with only the fields that the next `run` must know:
    /// `{"store":…,"leases":[{"lease":…,"resource":…,…}]}`. Leases that name no store are in the
    /// one at the top.
    pub fn shortest(&self) -> String {
        let common = self.leases.first().map(|outer| outer.store.as_str());
        let lease = |outer: &Outer| {
            let Outer { lease, store } = outer;
            let mut short = json!({
                "lease": lease.lease, "resource": lease.resource, "mode": lease.mode,
                "token": lease.token,
            });
            if Some(store.as_str()) != common {
                short["store"] = store.as_str().into();
            }
            short
        };
        let leases: Vec<Value> = self.leases.iter().map(lease).collect();
        json!({ "store": common, "leases": leases }).to_string()
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    pub fn from_json(text: &[u8]) -> serde_json::Result<Self> {
        let mut document: Value = serde_json::from_slice(text)?;
        let store = document.get("store").filter(|store| store.is_string());
        let store = store.cloned();
        let leases = document.get_mut("leases").and_then(Value::as_array_mut);
        // Only the shortest form has a store at the top.
        if let (Some(store), Some(leases)) = (store, leases) {
            for lease in leases.iter_mut().filter_map(Value::as_object_mut) {
                lease.entry("store").or_insert_with(|| store.clone());
                for (name, value) in left_out() {
                    lease.entry(name).or_insert(value);
                }
            }
        }
        serde_json::from_value(document)
    }
}

/// Returns values for the fields that the shortest form leaves out.
fn left_out() -> [(&'static str, Value); 11] {
    let long_ago = json!(Timestamp::from_millis(0));
    [
        ("owner", "unknown".into()),
        ("session", "unknown".into()),
        ("acquired_at", long_ago.clone()),
        ("expires_at", Value::Null),
        ("heartbeat_at", long_ago),
        ("binding", "session".into()),
        ("state", "held".into()),
        ("pid", 0.into()),
        ("host", "".into()),
        ("command", "".into()),
        ("purpose", Value::Null),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::tests::lease;
    use crate::{NAMES_BYTES_MAX, RESOURCES_MAX};

    fn outer(lease: Lease, store: &str) -> Outer {
        Outer {
            lease,
            store: store.into(),
        }
    }

    #[test]
    fn leases_round_trip_with_their_store() {
        let outers = Outers {
            leases: vec![outer(lease("x"), "file:/s")],
        };
        let json = outers.to_json();
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["leases"][0]["store"], "file:/s");
        assert_eq!(value["leases"][0]["resource"], "name:x");
        let read = Outers::from_json(json.as_bytes()).unwrap();
        assert_eq!(read.leases[0].lease, outers.leases[0].lease);
    }

    #[test]
    fn what_is_only_for_people_is_left_out_if_it_is_too_long() {
        let mut long = lease("x");
        long.metadata = Some("x".repeat(4000).into());
        let leases = vec![outer(long, "file:/s"); 100];
        let json = Outers { leases }.to_json();
        assert!(json.len() <= BYTES_MAX, "{}", json.len());
        let read = Outers::from_json(json.as_bytes()).unwrap();
        assert_eq!(read.leases.len(), 100);
    }

    #[test]
    fn as_many_leases_as_a_run_may_take_fit_and_can_be_read() {
        let name = "x".repeat(NAMES_BYTES_MAX / RESOURCES_MAX - "name:".len());
        let mut long = lease(&name);
        long.lease = tenure::LeaseId::parse(&"l".repeat(36)).unwrap();
        let mut leases = vec![outer(long, &format!("file:/{}", "s".repeat(4000))); RESOURCES_MAX];
        leases.push(outer(lease("y"), "file:/other"));
        let outers = Outers { leases };
        let json = outers.to_json();
        assert!(json.len() <= BYTES_MAX, "{}", json.len());
        let read = Outers::from_json(json.as_bytes()).unwrap();
        assert_eq!(read.leases.len(), RESOURCES_MAX + 1);
        for (read, written) in read.leases.iter().zip(&outers.leases) {
            assert_eq!(read.store, written.store);
            assert_eq!(read.lease.lease, written.lease.lease);
            assert_eq!(read.lease.resource, written.lease.resource);
        }
    }
}
