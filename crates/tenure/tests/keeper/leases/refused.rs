//! Stores without leases of their own, and requests that no store could keep.

use tenure::audit::AuditQuery;
use tenure::leases::{LeaseTerms, Recovery};
use tenure::{Class, Error, Keeper, LeaseId, Mode, Options};

use super::*;

#[tokio::test]
async fn a_store_without_leases_names_itself_whatever_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let file = format!("file:{}", directory.path().display());
    for url in ["memory:", &file] {
        let keeper = Keeper::open(url).await.unwrap();
        let ana = session(&keeper, "ana").await;
        let (lease, ana_too) = (LeaseId::parse("x").unwrap(), owner("ana"));
        let (by, wanted) = (Some(&ana_too), set(&[("a", Mode::Write)]));
        let (terms, options) = (LeaseTerms::default(), Options::default());
        let refused: Vec<Error> = vec![
            keeper
                .lock(&ana, &wanted, &terms, &options)
                .await
                .unwrap_err(),
            keeper.find(&lease).await.unwrap_err(),
            keeper.renew(&lease, None, by).await.unwrap_err(),
            keeper.release(&lease, by).await.unwrap_err(),
            keeper.upgrade(&ana, &lease, None, by).await.unwrap_err(),
            keeper.downgrade(&lease, by).await.unwrap_err(),
            keeper.recover(&ana_too, Recovery::Real).await.unwrap_err(),
            keeper
                .break_lease(&lease, &ana_too, "gone")
                .await
                .unwrap_err(),
            keeper.audit(&AuditQuery::default()).await.unwrap_err(),
            keeper.records("publish").map(drop).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.class(), Class::Configuration, "{error}");
            assert!(error.to_string().contains(url), "{error}");
        }
        assert_eq!(
            keeper.list(&tenure::Query::default()).await.unwrap().held,
            []
        );
    }
}

#[tokio::test]
async fn every_store_tells_a_fenced_token() {
    let (database, directory) = (Database::new().await, tempfile::tempdir().unwrap());
    let file = format!("file:{}", directory.path().display());
    let [memory, file] = ["memory:", &file].map(Keeper::open);
    for keeper in [
        memory.await.unwrap(),
        file.await.unwrap(),
        database.keeper.clone(),
    ] {
        let (ana, a) = (session(&keeper, "ana").await, resource("a"));
        let first = take(&ana, "a", Mode::Write).await;
        let token = first.token();
        keeper.check(&a, token).await.unwrap();
        first.release().await.unwrap();
        keeper.check(&a, token).await.unwrap();
        drop(take(&ana, "a", Mode::Read).await);
        keeper.check(&a, token).await.unwrap();

        let second = take(&ana, "a", Mode::Write).await;
        let error = keeper.check(&a, token).await.unwrap_err();
        assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
        let (message, later) = (error.to_string(), second.token().to_string());
        assert!(
            message.contains("fenced") && message.contains(&later),
            "{message}"
        );
        keeper.check(&a, second.token()).await.unwrap();
    }
}

#[tokio::test]
async fn a_capacity_is_counted_or_refused_but_never_ignored() {
    let (database, directory) = (Database::new().await, tempfile::tempdir().unwrap());
    let slot = |capacity| wait(0).with_capacity(capacity);
    let build = resource("slot:build");
    for keeper in [keeper().await, database.keeper.clone()] {
        let [ana, bo, cy] = ["ana", "bo", "cy"].map(|owner| session(&keeper, owner));
        let (ana, bo, cy) = (ana.await, bo.await, cy.await);
        let _both = (
            ana.acquire(&build, Mode::Write, &slot(2)).await.unwrap(),
            bo.acquire(&build, Mode::Write, &slot(2)).await.unwrap(),
        );
        let error = cy.acquire(&build, Mode::Write, &slot(2)).await.unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        assert_eq!(error.holders().len(), 2);
        let error = cy.acquire(&build, Mode::Write, &slot(0)).await.unwrap_err();
        assert_eq!(error.class(), Class::BadInput, "{error}");
    }
    let file = format!("file:{}", directory.path().display());
    let keeper = Keeper::open(&file).await.unwrap();
    let ana = session(&keeper, "ana").await;
    let error = ana
        .acquire(&build, Mode::Write, &slot(2))
        .await
        .unwrap_err();
    assert_eq!(error.class(), Class::Configuration, "{error}");
    assert!(error.to_string().contains(&file), "{error}");
    drop(take(&ana, "slot:build", Mode::Write).await);
}
