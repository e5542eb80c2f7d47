//! Tokens: the fencing numbers of resources.

use tenure::{Class, Keeper, Mode, Options, Owner, SessionOptions, Token};

use super::case::{Case, case};
use crate::agent::resource;
use crate::stage::Stage;

pub(super) const CASES: &[Case] = &[
    case!(every_write_draws_a_higher_token),
    case!(readers_and_upgradeable_holders_carry_the_current_token),
    case!(an_upgrade_draws_a_higher_token_and_a_downgrade_keeps_it),
    case!(what_was_not_granted_draws_nothing_that_others_see),
    case!(tokens_go_on_after_a_crash),
    case!(tokens_go_on_when_the_store_is_opened_again, CrossProcess),
    case!(the_list_shows_the_token_of_the_guard),
    case!(a_token_is_good_only_while_it_is_the_newest_granted),
    case!(a_resource_that_was_never_granted_is_unknown),
    case!(a_resource_that_was_only_shared_has_no_token_but_zero),
];

fn every_write_draws_a_higher_token(stage: &Stage<'_>) {
    let mut last = Token::NONE;
    for placement in stage.placements() {
        let mut agents = stage.agents(*placement, ["ana", "bo", "cy"]);
        for _ in 0..5 {
            for agent in &mut agents {
                let token = agent.take("a", Mode::Write).token;
                assert!(token > last && token <= Token::MAX, "{token} after {last}");
                last = token;
                agent.release("a");
            }
        }
    }
}

fn readers_and_upgradeable_holders_carry_the_current_token(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo, mut cy] = stage.agents(*placement, ["ana", "bo", "cy"]);
        for _ in 0..3 {
            let current = ana.take("a", Mode::Write).token;
            ana.release("a");
            assert_eq!(bo.take("a", Mode::Read).token, current, "{placement:?}");
            assert_eq!(cy.take("a", Mode::Upgradeable).token, current);
            assert_eq!(ana.take("a", Mode::Read).token, current);
            for agent in [&mut ana, &mut bo, &mut cy] {
                agent.release("a");
            }
            assert_eq!(ana.take("a", Mode::Read).token, current);
            ana.release("a");
        }
    }
}

fn an_upgrade_draws_a_higher_token_and_a_downgrade_keeps_it(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        let mut last = bo.take("a", Mode::Write).token;
        bo.release("a");
        assert_eq!(ana.take("a", Mode::Upgradeable).token, last);
        for _ in 0..3 {
            let token = ana.try_upgrade("a").unwrap();
            assert!(token > last, "{placement:?}: {token} after {last}");
            assert_eq!(ana.downgrade("a").token, token);
            assert_eq!(bo.take("a", Mode::Read).token, token);
            bo.release("a");
            last = token;
        }
        ana.release("a");
        assert!(bo.take("a", Mode::Write).token > last);
    }
}

fn what_was_not_granted_draws_nothing_that_others_see(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo, mut cy] = stage.agents(*placement, ["ana", "bo", "cy"]);
        let current = ana.take("a", Mode::Write).token;
        assert!(bo.try_take("a", Mode::Write).is_none());
        ana.release("a");
        ana.take("a", Mode::Upgradeable);
        assert!(bo.try_take("a", Mode::Write).is_none());
        bo.take("a", Mode::Read);
        assert!(ana.try_upgrade("a").is_none());
        assert_eq!(cy.take("a", Mode::Read).token, current, "{placement:?}");
        let tokens: Vec<_> = stage.held().iter().map(|lease| lease.token).collect();
        assert_eq!(tokens, [current; 3]);
    }
}

fn tokens_go_on_after_a_crash(stage: &Stage<'_>) {
    let mut last = Token::NONE;
    for _ in 0..3 {
        let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
        let held = ana.take("a", Mode::Write).token;
        assert!(held > last);
        ana.crash();
        let after = stage.take_from_the_dead(&mut bo, "a", Mode::Read);
        assert_eq!(after.token, held);
        bo.release("a");
        bo.take("a", Mode::Upgradeable);
        last = bo.try_upgrade("a").unwrap();
        assert!(last > held);
        bo.crash();
    }
}

fn tokens_go_on_when_the_store_is_opened_again(stage: &Stage<'_>) {
    let mut last = Token::NONE;
    let a = resource("a");
    for _ in 0..3 {
        let token = stage.block_on(async {
            let keeper = Keeper::open(stage.url()).await.unwrap();
            let owner = Owner::parse("ana").unwrap();
            let session = keeper.session(SessionOptions::new(owner));
            let options = Options::default();
            session
                .acquire(&a, Mode::Write, &options)
                .await
                .unwrap()
                .token()
        });
        assert!(token > last);
        last = token;
    }
}

fn the_list_shows_the_token_of_the_guard(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    let shown = |agent: &mut crate::agent::Agent| agent.list()[0].token;
    let lease = ana.take("a", Mode::Upgradeable);
    assert_eq!(shown(&mut bo), lease.token);
    let upgraded = ana.try_upgrade("a").unwrap();
    assert_eq!(shown(&mut bo), upgraded);
    ana.downgrade("a");
    assert_eq!(shown(&mut bo), upgraded);
}

/// Checks a token; returns the class and message of the refusal if it is not good.
fn check(stage: &Stage<'_>, name: &str, token: Token) -> Result<(), (Class, String)> {
    let checked = stage.block_on(stage.keeper().check(&resource(name), token));
    checked.map_err(|error| (error.class(), error.to_string()))
}

fn after(token: Token) -> Token {
    token.next(0).unwrap()
}

fn a_token_is_good_only_while_it_is_the_newest_granted(stage: &Stage<'_>) {
    for placement in stage.placements() {
        let [mut ana, mut bo] = stage.agents(*placement, ["ana", "bo"]);
        let first = ana.take("a", Mode::Write).token;
        assert_eq!(check(stage, "a", first), Ok(()), "{placement:?}");
        ana.release("a");
        // This token is of another resource: it is higher than the first, and was not granted for
        // it.
        let elsewhere = bo.take("b", Mode::Write).token;
        assert_eq!(check(stage, "a", first), Ok(()), "it is free since");
        let mut refused = vec![after(first), Token::MAX];
        refused.extend((elsewhere != first).then_some(elsewhere));
        for token in refused {
            let (class, said) = check(stage, "a", token).unwrap_err();
            assert_eq!(class, Class::NotAllowed, "{said}");
            assert!(said.contains("never granted"), "{said}");
            assert!(said.contains(&first.to_string()), "the newest: {said}");
        }
        let second = ana.take("a", Mode::Write).token;
        let (class, said) = check(stage, "a", first).unwrap_err();
        assert_eq!(class, Class::NotAllowed, "{said}");
        assert!(said.contains("fenced"), "{said}");
        assert!(said.contains(&second.to_string()), "the newest: {said}");
        assert_eq!(check(stage, "a", second), Ok(()));
        ana.release("a");
        bo.release("b");
    }
}

fn a_resource_that_was_never_granted_is_unknown(stage: &Stage<'_>) {
    let [mut ana] = stage.agents(stage.apart(), ["ana"]);
    ana.take("a", Mode::Write);
    for token in [Token::NONE, after(Token::NONE), Token::MAX] {
        let (class, said) = check(stage, "b", token).unwrap_err();
        assert_eq!(class, Class::NotFound, "{said}");
        assert!(said.contains("name:b"), "{said}");
    }
}

fn a_resource_that_was_only_shared_has_no_token_but_zero(stage: &Stage<'_>) {
    let [mut ana, mut bo] = stage.agents(stage.apart(), ["ana", "bo"]);
    for (name, mode) in [("a", Mode::Read), ("b", Mode::Upgradeable)] {
        let carried = ana.take(name, mode).token;
        assert_eq!(carried, Token::NONE, "{mode}");
        for held in [true, false] {
            assert_eq!(check(stage, name, carried), Ok(()), "{mode}, {held}");
            let (class, said) = check(stage, name, after(carried)).unwrap_err();
            assert_eq!(class, Class::NotAllowed, "{said}");
            if held {
                ana.release(name);
            }
        }
        let drawn = bo.take(name, Mode::Write).token;
        assert_eq!(check(stage, name, drawn), Ok(()));
        let (class, said) = check(stage, name, carried).unwrap_err();
        assert_eq!(class, Class::NotAllowed, "{said}");
        bo.release(name);
    }
}
