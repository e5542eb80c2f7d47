//! Passwords: no output shows one, whatever goes wrong.

use std::fmt::{Debug, Display};
use std::fs;

use tenure_core::{Class, Mode, Store};
use tenure_postgres::Address;
use tenure_testkit::postgres::{Bouncer, Cluster, Mode as Pooling, Settings};

use crate::scene::{Asks, SHORT, open, request, take, unique};

const SECRET: &str = "s3cret-pa55";

fn with_password(url: &str, user: &str) -> String {
    let url = url.replacen("postgres@", &format!("{user}:{SECRET}@"), 1);
    assert!(url.contains(SECRET), "{url}");
    url
}

fn hides(shown: &(impl Debug + Display)) {
    let all = format!("{shown} {shown:?} {shown:#?}");
    assert!(!all.contains(SECRET), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_error_of_opening_shows_the_password() {
    let database = Cluster::shared().database();
    let url = with_password(&database.tcp_url(), "postgres");
    let bouncer = Bouncer::start(&database, Pooling::Transaction);
    let nowhere = url.replace(&database.port().to_string(), "1");
    let no_database = url.replace(database.name(), "no_such_database");
    let no_role = with_password(&database.tcp_url(), &unique("stranger"));
    let pooled = with_password(bouncer.url(), "postgres");
    for (url, class) in [
        (nowhere, Class::Unreachable),
        (no_database, Class::Configuration),
        (no_role, Class::Configuration),
        (pooled, Class::Configuration),
        (format!("{url}?lease_ttl=0s"), Class::BadInput),
        (format!("{url}?colour=blue"), Class::BadInput),
    ] {
        let error = open(&url).await.err().unwrap();
        assert_eq!(error.class(), class, "{error:?}");
        hides(&error);
        assert!(
            !error.remedy().to_string().contains(SECRET),
            "{}",
            error.remedy()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_a_mistake_in_the_configuration_and_is_not_shown() {
    let cluster = Cluster::with(&Settings::default());
    let database = cluster.database();
    database.psql("CREATE ROLE guarded LOGIN PASSWORD 'another-one'");
    let rules = cluster.directory().join("data/pg_hba.conf");
    let before = fs::read_to_string(&rules).unwrap();
    let guarded = "host all guarded 127.0.0.1/32 scram-sha-256\n";
    fs::write(&rules, format!("{guarded}{before}")).unwrap();
    database.psql("SELECT pg_reload_conf()");
    let url = with_password(&database.tcp_url(), "guarded");
    // Until the server reads its new rules it admits every user, but this one has no rights.
    let error = loop {
        let error = open(&url).await.err().expect("it has no rights at all");
        hides(&error);
        assert_eq!(error.class(), Class::Configuration, "{error:?}");
        if !error.to_string().contains("permission denied") {
            break error;
        }
    };
    assert!(error.to_string().contains("password"), "{error}");
    assert!(
        error.remedy().to_string().contains("password"),
        "{}",
        error.remedy()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_the_store_nor_what_it_refuses_shows_the_password() {
    let database = Cluster::shared().database();
    let url = with_password(&database.tcp_url(), "postgres");
    let address = Address::parse(&url).unwrap();
    hides(&address);
    let store = open(&url).await.unwrap();
    let lease = take(&store, "a").await;
    let mut shown = vec![
        store.url().to_owned(),
        store.location_of(&lease.resource),
        format!("{lease:?}"),
    ];
    let told = store.examine().await.unwrap();
    shown.push(format!("{told:?}"));
    let refused = store.wait_for(&request("a", Mode::Read, SHORT)).await;
    let refused = refused.unwrap_err();
    shown.push(format!("{refused} {refused:?} {}", refused.remedy()));
    for shown in shown {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    // The password does not appear at the server, either.
    let seen =
        "SELECT string_agg(application_name || coalesce(query, ''), ' ') FROM pg_stat_activity";
    assert!(!database.psql(seen).contains(SECRET));
    let written = "SELECT string_agg(l::text, ' ') || (SELECT string_agg(a::text, ' ') FROM tenure.audit a) \
                   FROM tenure.dal_locks l";
    assert!(!database.psql(written).contains(SECRET));
}
