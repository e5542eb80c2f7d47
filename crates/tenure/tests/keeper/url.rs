//! Addresses of stores.

use tenure::{Class, Keeper, Mode};

use crate::scene::*;

#[tokio::test]
async fn unknown_stores_are_refused_and_the_known_ones_named() {
    for url in [
        "",
        "memory",
        "memory:x",
        "redis://x",
        "MEMORY:",
        "file:",
        "sqlite:",
        "sqlite",
    ] {
        let error = Keeper::open(url).await.unwrap_err();
        assert_eq!(error.class(), Class::Configuration, "{url:?}");
        let message = error.to_string();
        for known in ["file:DIR", "sqlite:PATH", "postgres://"] {
            assert!(message.contains(known), "{url:?}: {message}");
        }
    }
}

#[tokio::test]
async fn the_password_of_an_address_that_cannot_be_read_is_not_shown() {
    for url in [
        "postgre://ana:s3cret@db/x",
        "postgres://ana:s3cret@db:notaport/x",
        "postgres://ana:s3cret@db/x?colour=blue",
        "postgres:ana:s3cret@db/x",
    ] {
        let error = Keeper::open(url).await.unwrap_err();
        assert_eq!(error.class(), Class::Configuration, "{url}: {error}");
        let said = format!("{error} {error:?} {}", error.remedy());
        assert!(!said.contains("s3cret"), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable_and_its_password_is_not_shown() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let url = format!("postgresql://ana:s3cret@127.0.0.1:{port}/x");
    let error = Keeper::open(&url).await.unwrap_err();
    assert_eq!(error.class(), Class::Unreachable, "{error}");
    let said = format!("{error} {error:?} {}", error.remedy());
    assert!(!said.contains("s3cret"), "{said}");
}

#[tokio::test]
async fn every_memory_store_is_its_own() {
    let (one, two) = (keeper().await, keeper().await);
    let (ana, bo) = (session(&one, "ana").await, session(&two, "bo").await);
    let _both = (
        take(&ana, "a", Mode::Write).await,
        take(&bo, "a", Mode::Write).await,
    );
    assert_eq!(one.url(), "memory:");
}

#[tokio::test]
async fn a_file_store_is_met_by_whoever_opens_the_same_directory() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file:{}", directory.path().display());
    let (one, two) = (Keeper::open(&url).await, Keeper::open(&url).await);
    let (one, two) = (one.unwrap(), two.unwrap());
    let (ana, bo) = (session(&one, "ana").await, session(&two, "bo").await);
    let guard = take(&ana, "a", Mode::Write).await;
    let asked = bo.acquire(&resource("a"), Mode::Write, &wait(0)).await;
    assert_eq!(asked.unwrap_err().holders(), [guard.lease()]);
    guard.release().await.unwrap();
    drop(take(&bo, "a", Mode::Write).await);
}

#[tokio::test]
async fn the_address_of_a_file_store_is_absolute() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let name = directory.path().file_name().unwrap();
    let url = format!("file:{}", name.display());
    let keeper = Keeper::open(&url).await.unwrap();
    let path = keeper.url().strip_prefix("file:").unwrap();
    assert!(std::path::Path::new(path).is_absolute(), "{path}");
}

#[tokio::test]
async fn a_directory_is_no_database_and_the_error_says_what_to_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    for url in [format!("sqlite:{path}"), format!("sqlite:{path}/new/")] {
        let error = Keeper::open(&url).await.unwrap_err();
        assert_eq!(error.class(), Class::Configuration, "{error}");
        let message = error.to_string();
        assert!(message.contains("tenure.db"), "{message}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_database_is_met_by_whoever_opens_the_same_path() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let name = directory.path().file_name().unwrap();
    let relative = format!("sqlite:{}/new/tenure.db", name.display());
    let one = Keeper::open(&relative).await.unwrap();
    let url = one.url().to_owned();
    assert!(url.starts_with("sqlite:/"), "{url}");
    let two = Keeper::open(&url).await.unwrap();
    let (ana, bo) = (session(&one, "ana").await, session(&two, "bo").await);
    let guard = take(&ana, "a", Mode::Write).await;
    let asked = bo.acquire(&resource("a"), Mode::Write, &wait(0)).await;
    assert_eq!(asked.unwrap_err().holders(), [guard.lease()]);
    guard.release().await.unwrap();
    drop(take(&bo, "a", Mode::Write).await);
}
