//! `tenure ledger claim`, `release`, `claims` and `reap`.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};
use tenure::Timestamp;
use tenure_ledger::{Claim, ClaimToken, Node};
use tenure_work::agents::claim_notes::ClaimedIn;

use super::open_ledger::{OpenLedger, about, answered, to_read};
use crate::agent::{forget, remember};
use crate::cli::{Global, LedgerClaim, LedgerDirectory, LedgerReap, LedgerRelease};
use crate::context::owner;
use crate::output::{self, word};
use crate::report::Failure;
use crate::table::{self, Table};

/// A claim, and whether its time is over.
#[derive(Serialize)]
struct ClaimWithState {
    #[serde(flatten)]
    claim: Claim,
    state: &'static str,
}

impl ClaimWithState {
    fn at(claim: Claim, now: Timestamp) -> Self {
        let state = match claim.is_over(now) {
            true => "expired",
            false => "held",
        };
        Self { claim, state }
    }
}

/// Claims a node, or renews a claim that is named by its token.
pub fn claim(global: &Global, options: &LedgerClaim) -> Result<ExitCode, Failure> {
    let ttl = options.ttl;
    let is_renewal = options.node.contains('#');
    let opened = OpenLedger::open(&options.terms, &options.place.directory, ttl)?;
    let claim = match is_renewal {
        true => {
            let token: ClaimToken = options.node.parse()?;
            opened.wait(|ledger| ledger.renew(&token, ttl))?
        }
        false => {
            let node: Node = options.node.parse()?;
            opened.wait(|ledger| ledger.claim(&node, ttl))?
        }
    };
    remember(
        (ClaimedIn::Ledger, &options.place.directory),
        &claim.node,
        &claim.owner,
        claim.token,
        claim.expires_at,
    );
    let text = format!("{}#{}\n", claim.node, claim.token);
    let (now, token) = (claim.acquired_at, claim.token);
    let claims = listed(&[ClaimWithState::at(claim, now)]);
    let answer = output::answer(global.json, &claims, || output::text(&text));
    answered(answer, &options.place.directory, token)
}

/// Ends a claim.
pub fn release(global: &Global, options: &LedgerRelease) -> Result<ExitCode, Failure> {
    let node: Node = options.node.parse()?;
    let opened = OpenLedger::open(&options.terms, &options.place.directory, None)?;
    let claim = opened.wait(|ledger| ledger.release(&node))?;
    let place = (ClaimedIn::Ledger, options.place.directory.as_path());
    let owner = owner(options.terms.owner.clone())?;
    forget(place, &claim.node, &owner);
    let released = format!("released {}#{}", claim.node, claim.token);
    let state = "released";
    let claims = listed(&[ClaimWithState { claim, state }]);
    output::answer(global.json, &claims, || {
        word(&released);
        Ok(())
    })
}

/// Shows who has which node.
pub fn claims(global: &Global, options: &LedgerDirectory) -> Result<ExitCode, Failure> {
    let ledger = to_read(&options.directory)?;
    let claims = ledger.claims().map_err(about)?;
    let now = ledger.time().map_err(about)?;
    let claims: Vec<ClaimWithState> = claims
        .into_iter()
        .map(|claim| ClaimWithState::at(claim, now))
        .collect();
    let in_words = || print_table(&claims, "nothing is claimed");
    output::answer(global.json, &listed(&claims), in_words)
}

/// Ends all claims whose time is over.
pub fn reap(global: &Global, options: &LedgerReap) -> Result<ExitCode, Failure> {
    let opened = OpenLedger::open(&options.terms, &options.place.directory, None)?;
    let reaped = opened.wait(|ledger| ledger.reap())?;
    let state = "expired";
    let reaped = reaped
        .into_iter()
        .map(|claim| ClaimWithState { claim, state });
    let reaped: Vec<ClaimWithState> = reaped.collect();
    let document = json!({ "reaped": reaped, "next": null });
    output::answer(global.json, &document, || {
        print_table(&reaped, "no claim is over")
    })
}

/// `{"claims":[…],"next":null}`.
fn listed(claims: &[ClaimWithState]) -> Value {
    json!({ "claims": claims, "next": null })
}

fn print_table(claims: &[ClaimWithState], none: &str) -> Result<(), Failure> {
    if claims.is_empty() {
        word(none);
    }
    let mut table = Table::new(vec![
        "NODE", "OWNER", "TOKEN", "ACQUIRED", "EXPIRES", "STATE",
    ]);
    for ClaimWithState { claim, state } in claims {
        table.push([
            claim.node.clone(),
            claim.owner.clone(),
            claim.token.to_string(),
            claim.acquired_at.to_string(),
            claim.expires_at.to_string(),
            (*state).to_owned(),
        ]);
    }
    output::text(&table.text(table::width(), &["NODE", "OWNER"]))
}
