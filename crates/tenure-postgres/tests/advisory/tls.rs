//! TLS as the URL asks for it, with a server that has it and one that does not.

use std::path::Path;

use tenure_core::Class;
use tenure_postgres::advisory::{AdvisoryLocks, Settings};
use tenure_testkit::postgres::{Cluster, Database};

use crate::scene::{AGENT, WAIT_MAX, until};

/// Runs a program at the server. The program gets no input: one that ended without reading its
/// input would be an error.
const RUN: &str = "COPY (SELECT 1 WHERE false) TO PROGRAM";

/// Gives the server a certificate that it signed itself, made out to `localhost`.
fn give_certificate(database: &Database, data: &str) {
    let make = format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
         -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:false \
         -keyout {data}/server.key -out {data}/server.crt 2> {data}/openssl.log \
         || exit 1; chmod 600 {data}/server.key"
    );
    let made = database.try_psql(&format!("{RUN} '{make}'"));
    made.expect("install openssl (apt-get install openssl)");
    database.psql("ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf()");
}

async fn asks(url: &str) -> Result<bool, tenure_core::Error> {
    let locks = AdvisoryLocks::open(url, Settings::default()).await?;
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await?;
    guard.release().await?;
    Ok(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_as_the_url_asks_for() {
    let cluster = Cluster::with(&tenure_testkit::postgres::Settings::default());
    let database = cluster.database();
    let url = |options: &str| format!("{}?{options}", database.tcp_url());
    asks(&url("sslmode=prefer"))
        .await
        .expect("without TLS, as there is none");
    let refused = asks(&url("sslmode=require")).await.unwrap_err();
    assert_eq!(refused.class(), Class::Configuration, "{refused:?}");

    let data = database.psql("SHOW data_directory").trim().to_owned();
    give_certificate(&database, &data);
    let on = || database.psql("SHOW ssl").trim() == "on";
    until("the server has TLS", on).await;
    let copied = tempfile::NamedTempFile::new().unwrap();
    let certificate = std::fs::read(Path::new(&data).join("server.crt")).unwrap();
    std::fs::write(copied.path(), certificate).unwrap();
    let root = format!("sslrootcert={}", copied.path().display());

    for mode in ["disable", "prefer", "require"] {
        let used = encrypted(&database, &url(&format!("sslmode={mode}"))).await;
        assert_eq!(used, mode != "disable", "{mode}");
    }
    // A server that demands TLS tells it only by refusing connections without it.
    let rules = Path::new(&data).join("pg_hba.conf");
    let only = format!(
        "{RUN} 'printf \"local all all trust\\nhostssl all all all trust\\n\" > {}'; \
         SELECT pg_reload_conf()",
        rules.display()
    );
    database.psql(&only);
    let plain = url("sslmode=disable");
    let deadline = std::time::Instant::now() + WAIT_MAX;
    let refused = loop {
        match asks(&plain).await {
            Err(error) => break error,
            Ok(_) => assert!(
                std::time::Instant::now() < deadline,
                "the rules do not count"
            ),
        }
    };
    assert_eq!(refused.class(), Class::Configuration, "{refused:?}");
    assert!(refused.to_string().contains("without TLS"), "{refused}");
    assert!(
        refused.remedy().to_string().contains("sslmode=require"),
        "{refused:?}"
    );
    // The certificate names localhost, and the address is a number.
    let by_name = |options: &str| url(options).replace("127.0.0.1", "localhost");
    assert!(by_name("").contains("localhost"));
    assert!(encrypted(&database, &url(&format!("sslmode=verify-ca&{root}"))).await);
    assert!(encrypted(&database, &by_name(&format!("sslmode=verify-full&{root}"))).await);
    let wrong_name = asks(&url(&format!("sslmode=verify-full&{root}"))).await;
    assert_eq!(wrong_name.unwrap_err().class(), Class::Configuration);
    let other = tempfile::NamedTempFile::new().unwrap();
    let make = std::process::Command::new("openssl")
        .args(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout /dev/null -out"
                .split(' '),
        )
        .arg(other.path())
        .output();
    assert!(
        make.expect("install openssl (apt-get install openssl)")
            .status
            .success()
    );
    for mode in ["verify-ca", "verify-full"] {
        let options = format!("sslmode={mode}&sslrootcert={}", other.path().display());
        let unknown = asks(&by_name(&options)).await.unwrap_err();
        assert_eq!(unknown.class(), Class::Configuration, "{mode}: {unknown:?}");
    }
}

/// The address leads over the network, not to a socket, so nothing may be sent in the clear.
#[tokio::test(flavor = "multi_thread")]
async fn a_socket_with_a_hostaddr_is_not_taken_for_a_local_one() {
    let database = Cluster::shared().database();
    let url = |options: &str| {
        let (port, name) = (database.port(), database.name());
        format!("postgres://postgres@%2Fnowhere:{port}/{name}?hostaddr=127.0.0.1&{options}")
    };
    asks(&url("sslmode=disable"))
        .await
        .expect("the address leads to the server");
    for options in ["sslmode=require", "sslmode=verify-full&sslrootcert=system"] {
        assert!(asks(&url(options)).await.is_err(), "{options}");
    }
}

/// Tells whether the connection that holds a lock is encrypted.
async fn encrypted(database: &Database, url: &str) -> bool {
    let locks = AdvisoryLocks::open(url, Settings::default()).await.unwrap();
    let guard = locks.lock(AGENT, 1, WAIT_MAX).await.unwrap();
    let sql = format!(
        "SELECT ssl FROM pg_stat_ssl WHERE pid = {}",
        guard.backend_pid()
    );
    let ssl = database.psql(&sql);
    guard.release().await.unwrap();
    ssl.trim() == "t"
}
