//! The owner of each node, according to the events.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tenure_api::ledger::Claim;
use tenure_core::internal::is_plain_name;
use tenure_core::{Error, Resource, Result, Timestamp};

use super::event::{ClaimEvent, ClaimEventKind};

/// The longest name of a node, in bytes.
const NODE_BYTES_MAX: usize = 200;

/// A node that can be claimed: 1 to 200 letters, digits, dots, dashes and underscores, such as
/// `1.2.3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(String);

impl Node {
    /// Returns the node as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn resource(&self) -> Resource {
        Resource::new("node", &self.0).expect("letters, digits, dots and dashes make a resource")
    }
}

impl FromStr for Node {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if is_plain_name(text, NODE_BYTES_MAX) {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(Error::BadInput(format!(
            "bad node {shown:?}; a node is 1 to {NODE_BYTES_MAX} letters, digits, dots, dashes and \
             underscores, such as 1.2.3, and does not begin with a dot"
        )))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `NODE#N`: a claim, by its node and its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimToken {
    /// The claimed node.
    pub node: Node,
    /// The number of the event that acquired the claim.
    pub token: u64,
}

impl FromStr for ClaimToken {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let parts = text.rsplit_once('#');
        let parts = parts.and_then(|(node, token)| Some((node, token.parse().ok()?)));
        let Some((node, token)) = parts else {
            let problem = "the token of a claim is NODE#N, such as 1.2.3#7";
            return Err(Error::BadInput(problem.into()));
        };
        let node = node.parse()?;
        Ok(Self { node, token })
    }
}

impl fmt::Display for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.node, self.token)
    }
}

/// The furthest that a claim event may be ahead of the clock to be believed, and the longest that a
/// claim may last.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);

/// Returns true if a claim was acquired at a time too far ahead of the clock. Such a claim does not
/// end by itself.
pub(super) fn is_ahead(claim: &Claim, clock: Timestamp) -> bool {
    claim.acquired_at.since(clock) > AHEAD_MAX
}

/// Returns true if a claim lasts longer than any may.
pub(super) fn lasts_too_long(claim: &Claim, clock: Timestamp) -> bool {
    claim.expires_at.since(clock) > AHEAD_MAX
}

/// All claims as of some event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Claims {
    held: BTreeMap<String, Claim>,
    /// The newest event about a claim, and its time.
    latest: Option<(u64, Timestamp)>,
    /// The nodes whose owner is unknown, each with the event that is not whole.
    malformed: BTreeMap<String, u64>,
}

impl Claims {
    pub(super) fn from(
        held: Vec<Claim>,
        latest: Option<(u64, Timestamp)>,
        malformed: BTreeMap<String, u64>,
    ) -> Self {
        let held = held.into_iter().map(|claim| (claim.node.clone(), claim));
        Self {
            held: held.collect(),
            latest,
            malformed,
        }
    }

    /// Returns the nodes whose owner is unknown, each with the event that is not whole.
    pub(super) fn malformed(&self) -> &BTreeMap<String, u64> {
        &self.malformed
    }

    /// Adds an event that is not whole.
    pub(super) fn apply_malformed(&mut self, sequence: u64, node: String) {
        self.malformed.insert(node, sequence);
    }

    pub(super) fn get(&self, node: &str) -> Option<Claim> {
        self.held.get(node).cloned()
    }

    /// Returns the claims that were neither released nor reaped, in the order of nodes.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.held.values()
    }

    pub(super) fn latest(&self) -> Option<(u64, Timestamp)> {
        self.latest
    }

    /// Returns the clock, or the time of the newest claim event if that is later: time never goes
    /// back. An event that is more than a day ahead of the clock is not believed.
    pub(super) fn time(&self, clock: Timestamp) -> Timestamp {
        match self.latest {
            Some((_, latest)) if latest.since(clock) <= AHEAD_MAX => latest.max(clock),
            _ => clock,
        }
    }

    /// Ends all claims, or the one on a node, as of the time when they were acquired. An event is
    /// missing, and it may have ended or changed any of them.
    pub(super) fn apply_missing(&mut self, node: Option<&str>) {
        let is_meant = |claim: &&mut Claim| node.is_none_or(|node| claim.node == node);
        for claim in self.held.values_mut().filter(is_meant) {
            claim.expires_at = claim.expires_at.min(claim.acquired_at);
        }
    }

    /// Adds an event that any program may have written. Returns what is odd about it, if other
    /// programs may fail on it.
    ///
    /// A second acquire by the same owner before the first is over is a renewal and keeps the
    /// token. Any other acquire is a claim of its own, as the newest one counts.
    pub(super) fn apply(&mut self, sequence: u64, event: ClaimEvent) -> Option<String> {
        self.latest = Some((sequence, event.timestamp));
        self.malformed.remove(&event.node_id);
        let known = self.held.remove(&event.node_id);
        let (ClaimEventKind::Acquired, Some(expires_at)) = (event.kind, event.expires_at) else {
            return match known {
                Some(claim) if claim.owner == event.owner => None,
                Some(claim) => Some(format!(
                    "it ends the claim of {} on {} in the name of {}",
                    claim.owner, event.node_id, event.owner
                )),
                None => Some(format!(
                    "it ends a claim on {}, which was not claimed: the replay of other programs fails \
                     on it",
                    event.node_id
                )),
            };
        };
        let mut claim = Claim {
            node: event.node_id.clone(),
            owner: event.owner,
            token: sequence,
            acquired_at: event.timestamp,
            expires_at,
        };
        let mut odd = None;
        if let Some(known) = known.filter(|known| !known.is_over(event.timestamp)) {
            if known.owner == claim.owner {
                claim.token = known.token;
                claim.acquired_at = known.acquired_at;
            } else {
                odd = Some(format!(
                    "it claims {} while {} still had it",
                    event.node_id, known.owner
                ));
            }
        }
        self.held.insert(event.node_id, claim);
        odd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_plain_name() {
        for text in ["1", "1.2.3", "a_b-C.9", &"x".repeat(200)] {
            assert_eq!(text.parse::<Node>().unwrap().as_str(), text);
        }
        for text in [
            "",
            ".",
            ".hidden",
            "a/b",
            "a b",
            "a#1",
            "é",
            &"x".repeat(201),
        ] {
            assert!(text.parse::<Node>().is_err(), "{text:?}");
        }
        let token: ClaimToken = "1.2#7".parse().unwrap();
        assert_eq!((token.node.as_str(), token.token), ("1.2", 7));
        for text in ["1.2", "1.2#", "#7", "1.2#x", "1.2#-1", "1#2#7"] {
            assert!(text.parse::<ClaimToken>().is_err(), "{text:?}");
        }
    }
}
