//! The one decision on claims: claims, request and time give events, or a refusal.
//!
//! | asked for | the node is free | its owner has it | the claim is over | another has it |
//! |---|---|---|---|---|
//! | claim | acquired | refused: renew it | reaped, acquired | refused |
//! | renew with its token | refused | acquired | refused: claim it anew | refused |
//! | release | refused | released | released by its owner | refused |
//! | reap | – | – | reaped | – |
//! | append with its token | refused | allowed | refused | refused |
//! | end | – | reaped if it lasts too long | reaped | reaped if it lasts too long |
//!
//! The time is the clock, or the time of the newest claim event if that is later. An event that is
//! more than a day ahead of the clock is not believed: its claim blocks all other owners until its
//! owner renews or releases it, or a repair ends it. Where an event about a node is not whole, the
//! owner of that node is unknown, and every request but a release is refused.

use std::time::Duration;
use tenure_core::error::Claimed;

use tenure_api::ledger::Claim;
use tenure_core::{Error, Owner, Remedy, Timestamp};

use super::Ledger;
use super::append_queue::TOGETHER_MAX;
use super::event::{ClaimEvent, ClaimEventKind, seconds};
use super::held_claims::{ClaimToken, Claims, Node, is_ahead, lasts_too_long};

/// A request about claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClaimRequest {
    Claim(Node, Duration),
    Renew(ClaimToken, Duration),
    Release(Node),
    /// Ends claims that are over, as many as fit into one write.
    Reap,
    /// Ends claims that are over, and those that last longer than any claim may.
    End,
}

impl ClaimRequest {
    pub(super) fn node(&self) -> Option<&Node> {
        match self {
            ClaimRequest::Claim(node, _) | ClaimRequest::Release(node) => Some(node),
            ClaimRequest::Renew(token, _) => Some(&token.node),
            ClaimRequest::Reap | ClaimRequest::End => None,
        }
    }

    /// Returns true if the request leaves its node without a claim.
    pub(super) fn ends(&self) -> bool {
        !matches!(self, ClaimRequest::Claim(..) | ClaimRequest::Renew(..))
    }
}

/// The reason why a claim request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeRefusal {
    /// Another owner has the node.
    Claimed(Claim),
    /// The same owner has it. A refusal keeps two workers of one owner from both winning.
    OwnClaim(Claim),
    /// The node is not claimed.
    NotClaimed(Node),
    /// Another owner has the claim, so this owner cannot end or use it.
    NotOwner(Claim),
    /// The time of the claim is over.
    Over(Claim),
    /// The node was claimed anew since, under another token.
    OtherToken(Claim, u64),
    /// The claim's time cannot be true, or the clock is wrong.
    Ahead(Claim),
    /// The event of this number is about the node, and is not whole.
    Malformed(Node, u64),
}

/// Decides a request about claims.
pub(super) fn decide(
    claims: &Claims,
    owner: &Owner,
    request: &ClaimRequest,
    clock: Timestamp,
) -> Result<Vec<ClaimEvent>, NodeRefusal> {
    let now = claims.time(clock);
    let known = request.node().and_then(|node| claims.get(node.as_str()));
    let acquired = |node: &Node, ttl: &Duration| ClaimEvent {
        expires_at: Some(rounded_up(now.after(*ttl))),
        ..event(ClaimEventKind::Acquired, node.as_str(), owner.as_str(), now)
    };
    let reaped = |claim: &Claim| event(ClaimEventKind::Reaped, &claim.node, &claim.owner, now);
    match request {
        ClaimRequest::Claim(node, ttl) => match known {
            _ if claims.malformed().contains_key(node.as_str()) => Err(malformed(claims, node)),
            None => Ok(vec![acquired(node, ttl)]),
            Some(claim) if claim.is_over(now) => Ok(vec![reaped(&claim), acquired(node, ttl)]),
            Some(claim) if claim.owner == owner.as_str() => Err(NodeRefusal::OwnClaim(claim)),
            Some(claim) if is_ahead(&claim, clock) => Err(NodeRefusal::Ahead(claim)),
            Some(claim) => Err(NodeRefusal::Claimed(claim)),
        },
        ClaimRequest::Renew(token, ttl) => {
            require_token(claims, owner, token, clock)?;
            Ok(vec![acquired(&token.node, ttl)])
        }
        ClaimRequest::Release(node) => match known {
            None => Err(NodeRefusal::NotClaimed(node.clone())),
            Some(claim) if claim.owner != owner.as_str() => Err(NodeRefusal::NotOwner(claim)),
            Some(_) => {
                let (node, owner) = (node.as_str(), owner.as_str());
                Ok(vec![event(ClaimEventKind::Released, node, owner, now)])
            }
        },
        ClaimRequest::Reap => {
            let over = claims.iter().filter(|claim| claim.is_over(now));
            Ok(over.take(TOGETHER_MAX).map(reaped).collect())
        }
        ClaimRequest::End => {
            let ends = |claim: &&Claim| claim.is_over(now) || lasts_too_long(claim, clock);
            let ended = claims.iter().filter(ends);
            Ok(ended.take(TOGETHER_MAX).map(reaped).collect())
        }
    }
}

/// Decides whether a claim is still held by its owner under its token.
pub(super) fn require_token(
    claims: &Claims,
    owner: &Owner,
    token: &ClaimToken,
    clock: Timestamp,
) -> Result<(), NodeRefusal> {
    if claims.malformed().contains_key(token.node.as_str()) {
        return Err(malformed(claims, &token.node));
    }
    let Some(claim) = claims.get(token.node.as_str()) else {
        return Err(NodeRefusal::NotClaimed(token.node.clone()));
    };
    if claim.owner != owner.as_str() {
        return Err(NodeRefusal::NotOwner(claim));
    }
    if claim.token != token.token {
        return Err(NodeRefusal::OtherToken(claim, token.token));
    }
    match claim.is_over(claims.time(clock)) {
        true => Err(NodeRefusal::Over(claim)),
        false => Ok(()),
    }
}

fn malformed(claims: &Claims, node: &Node) -> NodeRefusal {
    let sequence = claims.malformed().get(node.as_str());
    NodeRefusal::Malformed(node.clone(), sequence.copied().unwrap_or_default())
}

fn event(kind: ClaimEventKind, node: &str, owner: &str, timestamp: Timestamp) -> ClaimEvent {
    ClaimEvent {
        kind,
        timestamp,
        node_id: node.to_owned(),
        owner: owner.to_owned(),
        expires_at: None,
    }
}

/// Returns the time rounded up to a whole second, so that no claim is shorter than was asked for.
fn rounded_up(time: Timestamp) -> Timestamp {
    let millis = time.as_millis();
    Timestamp::from_millis((millis + 999) / 1000 * 1000)
}

impl Ledger {
    /// Returns the error of a refusal to this owner.
    pub(super) fn refused(&self, refusal: NodeRefusal, owner: &Owner) -> Error {
        let until = |claim: &Claim| seconds(claim.expires_at);
        let (problem, remedy) = match refusal {
            NodeRefusal::Claimed(claim) => {
                let node: Result<Node, _> = claim.node.parse();
                return match node {
                    Ok(node) => Claimed {
                        preface: "node already locked: ",
                        resource: node.resource(),
                        owner: claim.owner,
                        expires_at: claim.expires_at,
                    }
                    .into(),
                    Err(error) => error,
                };
            }
            NodeRefusal::Ahead(claim) => {
                return Error::Corrupt {
                    path: self.names.event(claim.token),
                    problem: format!(
                        "it claims {} at {}, more than a day ahead of the clock; correct the clock, or have \
                         {} release it",
                        claim.node,
                        seconds(claim.acquired_at),
                        claim.owner
                    ),
                };
            }
            NodeRefusal::Malformed(node, sequence) => {
                return Error::Corrupt {
                    path: self.names.event(sequence),
                    problem: format!(
                        "it is about a claim on {node}, but not whole, so nobody knows who has {node}"
                    ),
                };
            }
            NodeRefusal::OwnClaim(claim) => {
                let Claim {
                    node, owner, token, ..
                } = &claim;
                let until = until(&claim);
                return Error::conflict(
                    format!(
                        "node already locked: {node} is claimed by {owner} itself, until {until}"
                    ),
                    Remedy::of(
                        "renew it as {}; agents that share an owner need one each: {.owner}",
                        &[&format!("{node}#{token}")],
                    ),
                );
            }
            NodeRefusal::NotClaimed(node) => (
                format!("{node} is not claimed: it was released, or reaped when its time was over"),
                claim_again(node.as_str()),
            ),
            NodeRefusal::NotOwner(claim) => (
                format!(
                    "{} is claimed by {} until {}, not by {}",
                    claim.node,
                    claim.owner,
                    until(&claim),
                    owner
                ),
                "only its owner may do this: {$owner}".into(),
            ),
            NodeRefusal::Over(claim) => (
                format!(
                    "the claim {}#{} was over at {}",
                    claim.node,
                    claim.token,
                    until(&claim)
                ),
                claim_again(&claim.node),
            ),
            NodeRefusal::OtherToken(claim, token) => (
                format!(
                    "the claim {0}#{token} is over: {0} was claimed again, as {0}#{1}",
                    claim.node, claim.token
                ),
                "stop the work under the old token".into(),
            ),
        };
        Error::NotAllowed { problem, remedy }
    }
}

fn claim_again(node: &str) -> Remedy {
    Remedy::of("claim it again: {ledger.claim directory=DIR node}", &[node])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner::parse(name).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }

    fn node() -> Node {
        "1.2".parse().unwrap()
    }

    const TTL: Duration = Duration::from_secs(60);

    /// Applies the decided events, numbered from `sequence` on.
    fn apply(claims: &mut Claims, sequence: u64, events: Vec<ClaimEvent>) {
        for (event, sequence) in events.into_iter().zip(sequence..) {
            assert_eq!(claims.apply(sequence, event), None);
        }
    }

    /// Ana has the node from 0 to 60, with token 5.
    fn claimed() -> Claims {
        let mut claims = Claims::default();
        let claim = ClaimRequest::Claim(node(), TTL);
        let events = decide(&claims, &owner("ana"), &claim, at(0)).unwrap();
        apply(&mut claims, 5, events);
        claims
    }

    fn kinds(events: &[ClaimEvent]) -> Vec<ClaimEventKind> {
        events.iter().map(|event| event.kind).collect()
    }

    #[test]
    fn every_request_in_every_state_is_decided_as_the_table_says() {
        use ClaimEventKind::{Acquired, Reaped, Released};
        let renew = ClaimRequest::Renew("1.2#5".parse().unwrap(), TTL);
        let claim = ClaimRequest::Claim(node(), TTL);
        let release = ClaimRequest::Release(node());
        let nobody = Claims::default();
        for (claims, who, request, now, expected) in [
            (&nobody, "ana", &claim, 0, Some(vec![Acquired])),
            (&nobody, "ana", &renew, 0, None),
            (&nobody, "ana", &release, 0, None),
            (&nobody, "ana", &ClaimRequest::Reap, 0, Some(vec![])),
            (&claimed(), "ana", &claim, 59, None),
            (&claimed(), "ana", &renew, 59, Some(vec![Acquired])),
            (&claimed(), "ana", &release, 59, Some(vec![Released])),
            (&claimed(), "bo", &claim, 59, None),
            (&claimed(), "bo", &renew, 59, None),
            (&claimed(), "bo", &release, 59, None),
            (&claimed(), "bo", &ClaimRequest::Reap, 59, Some(vec![])),
            (&claimed(), "ana", &claim, 60, Some(vec![Reaped, Acquired])),
            (&claimed(), "bo", &claim, 60, Some(vec![Reaped, Acquired])),
            (&claimed(), "ana", &renew, 60, None),
            (&claimed(), "ana", &release, 60, Some(vec![Released])),
            (&claimed(), "bo", &release, 60, None),
            (
                &claimed(),
                "bo",
                &ClaimRequest::Reap,
                60,
                Some(vec![Reaped]),
            ),
        ] {
            let decided = decide(claims, &owner(who), request, at(now)).ok();
            let decided = decided.map(|events| kinds(&events));
            assert_eq!(decided, expected, "{who} {request:?} at {now}");
        }
    }

    #[test]
    fn a_renewal_keeps_the_token_and_a_claim_after_the_end_gets_a_new_one() {
        let mut claims = claimed();
        let renew = ClaimRequest::Renew("1.2#5".parse().unwrap(), TTL);
        let renewed = decide(&claims, &owner("ana"), &renew, at(30)).unwrap();
        apply(&mut claims, 6, renewed);
        let claim = claims.get("1.2").unwrap();
        assert_eq!((claim.token, claim.expires_at), (5, at(90)));
        let again = ClaimRequest::Claim(node(), TTL);
        let events = decide(&claims, &owner("ana"), &again, at(90)).unwrap();
        apply(&mut claims, 7, events);
        assert_eq!(claims.get("1.2").unwrap().token, 8);
        let old = require_token(&claims, &owner("ana"), &"1.2#5".parse().unwrap(), at(91));
        assert!(matches!(old, Err(NodeRefusal::OtherToken(_, 5))), "{old:?}");
    }

    #[test]
    fn a_clock_set_back_gives_a_claim_no_more_time_and_events_never_go_back() {
        let claims = claimed();
        let token = "1.2#5".parse().unwrap();
        assert_eq!(
            require_token(&claims, &owner("ana"), &token, at(-3600)),
            Ok(())
        );
        let mut later = claims;
        let other = ClaimRequest::Claim("other".parse().unwrap(), TTL);
        let events = decide(&later, &owner("bo"), &other, at(70)).unwrap();
        apply(&mut later, 6, events);
        let over = require_token(&later, &owner("ana"), &token, at(-3600));
        assert!(matches!(over, Err(NodeRefusal::Over(_))), "{over:?}");
        let events = decide(
            &later,
            &owner("ana"),
            &ClaimRequest::Release(node()),
            at(-3600),
        );
        assert_eq!(events.unwrap()[0].timestamp, at(70));
    }

    #[test]
    fn a_claim_a_day_ahead_holds_up_its_node_until_it_is_renewed_released_or_ended() {
        let claims = claimed();
        let day = 24 * 3600;
        let now = at(-day - 1);
        let bo = |request: &ClaimRequest, now| decide(&claims, &owner("bo"), request, now);
        let other = ClaimRequest::Claim("other".parse().unwrap(), TTL);
        assert_eq!(bo(&other, now).unwrap()[0].timestamp, now);
        assert_eq!(bo(&ClaimRequest::Reap, now).unwrap(), []);
        let claim = ClaimRequest::Claim(node(), TTL);
        assert!(matches!(bo(&claim, now), Err(NodeRefusal::Ahead(_))));
        assert!(matches!(bo(&claim, at(-day)), Err(NodeRefusal::Claimed(_))));
        let renew = ClaimRequest::Renew("1.2#5".parse().unwrap(), TTL);
        for (who, request) in [
            ("ana", &renew),
            ("ana", &ClaimRequest::Release(node())),
            ("bo", &ClaimRequest::End),
        ] {
            let mut claims = claims.clone();
            let events = decide(&claims, &owner(who), request, now).unwrap();
            assert_eq!(events[0].timestamp, now);
            apply(&mut claims, 6, events);
            let claimed = decide(&claims, &owner("bo"), &claim, now.after(2 * TTL));
            assert!(claimed.is_ok(), "{request:?}: {claimed:?}");
        }
    }

    #[test]
    fn an_event_that_is_not_whole_holds_up_its_node_until_the_next_one_about_it() {
        let mut claims = claimed();
        claims.apply_malformed(6, "1.2".into());
        let refusal = || NodeRefusal::Malformed(node(), 6);
        let renew = ClaimRequest::Renew("1.2#5".parse().unwrap(), TTL);
        for request in [&ClaimRequest::Claim(node(), TTL), &renew] {
            for who in ["ana", "bo"] {
                let refused = decide(&claims, &owner(who), request, at(1));
                assert_eq!(refused, Err(refusal()), "{who} {request:?}");
            }
        }
        let release = ClaimRequest::Release(node());
        let released = decide(&claims, &owner("ana"), &release, at(1)).unwrap();
        apply(&mut claims, 7, released);
        let claim = ClaimRequest::Claim(node(), TTL);
        assert!(decide(&claims, &owner("bo"), &claim, at(1)).is_ok());
    }

    #[test]
    fn where_an_event_is_missing_the_claims_before_it_are_over() {
        let other: ClaimToken = "other#6".parse().unwrap();
        for (node, is_over) in [(None, true), (Some("1.2"), true), (Some("1.3"), false)] {
            let mut claims = claimed();
            claims.apply_missing(node);
            let claim = ClaimRequest::Claim(other.node.clone(), TTL);
            let events = decide(&claims, &owner("bo"), &claim, at(1)).unwrap();
            apply(&mut claims, 6, events);
            assert_eq!(claims.get("1.2").unwrap().is_over(at(1)), is_over);
            let token = "1.2#5".parse().unwrap();
            let required = require_token(&claims, &owner("ana"), &token, at(1));
            assert_eq!(required.is_err(), is_over, "{required:?}");
            assert_eq!(require_token(&claims, &owner("bo"), &other, at(2)), Ok(()));
        }
    }

    #[test]
    fn the_end_is_rounded_up_to_a_whole_second() {
        let now = Timestamp::from_millis(1_700_000_000_001);
        let claim = ClaimRequest::Claim(node(), Duration::from_secs(1));
        let events = decide(&Claims::default(), &owner("ana"), &claim, now).unwrap();
        assert_eq!(events[0].expires_at, Some(at(2)));
    }
}
