//! Owners of the schema: no code of another role runs with the rights of our user.

use tenure_core::{Class, Error, Mode, Store};
use tenure_postgres::advisory::{AdvisoryLocks, Settings};
use tenure_testkit::postgres::{Cluster, Database};

use crate::scene::{Asks, WAIT_MAX, as_role, open, request, take, unique};

/// A database, and a role that may make a schema in it.
fn with_maker() -> (Database, String) {
    let database = Cluster::shared().database();
    let role = unique("mallory");
    database.psql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE {} TO {role}",
        database.name()
    ));
    (database, role)
}

fn drop_role(database: &Database, role: &str) {
    database.psql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
}

/// Opens a store and takes a lock in it. Returns the error of the one or the other.
async fn refused(url: &str) -> Error {
    match open(url).await {
        Err(error) => error,
        Ok(store) => {
            let asked = request("a", Mode::Write, WAIT_MAX);
            let taken = store.wait_for(&asked).await;
            taken.expect_err("it was not refused")
        }
    }
}

#[track_caller]
fn is_configuration(error: &Error, words: &[&str]) {
    assert_eq!(error.class(), Class::Configuration, "{error:?}");
    let told = format!("{error}; {}", error.remedy());
    for word in words {
        assert!(told.contains(word), "no {word} in: {told}");
    }
}

/// The attack: a role that may make a schema waits for a superuser.
#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_runs_nothing_that_the_owner_of_the_schema_put_there() {
    let (database, mallory) = with_maker();
    let url = as_role(&database.url(), &mallory);
    drop(open(&url).await.unwrap());
    let attack = format!(
        "CREATE FUNCTION public.grab_{mallory}() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN ALTER ROLE {mallory} SUPERUSER; RETURN NEW; END $$;
         CREATE TRIGGER grab BEFORE INSERT ON tenure.audit
             FOR EACH ROW EXECUTE FUNCTION public.grab_{mallory}()"
    );
    database.psql("GRANT CREATE ON SCHEMA public TO PUBLIC");
    database.try_psql_at(&url, &attack).unwrap();
    let error = refused(&database.url()).await;
    let is_super = format!("SELECT rolsuper FROM pg_roles WHERE rolname = '{mallory}'");
    assert_eq!(database.psql(&is_super), "f", "the attack works");
    is_configuration(&error, &[&mallory, "superuser", "SECURITY.md"]);
    let advisory = AdvisoryLocks::open(&database.url(), Settings::default()).await;
    is_configuration(&advisory.err().unwrap(), &[&mallory]);
    // The absence of the trigger proves nothing: its owner could put it there a moment later.
    let take_back = "DROP TRIGGER grab ON tenure.audit";
    database.try_psql_at(&url, take_back).unwrap();
    is_configuration(&refused(&database.url()).await, &[&mallory, "superuser"]);
    // The owner itself may use its schema.
    let store = open(&url).await.unwrap();
    take(&store, "a").await;
    drop(store);
    drop_role(&database, &mallory);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_another_role_is_not_adopted() {
    let (database, mallory) = with_maker();
    let (victim, url) = (unique("ana"), as_role(&database.url(), &mallory));
    database.psql(&format!("CREATE ROLE {victim} LOGIN"));
    let of_victim = as_role(&database.url(), &victim);
    let words = [mallory.as_str(), victim.as_str(), "SECURITY.md"];
    // The schema is empty, and every role may make tables in it.
    let empty = "CREATE SCHEMA tenure; GRANT ALL ON SCHEMA tenure TO PUBLIC";
    database.try_psql_at(&url, empty).unwrap();
    is_configuration(&refused(&of_victim).await, &words);
    is_configuration(&refused(&database.url()).await, &[&mallory, "superuser"]);
    let made = "SELECT count(*) FROM pg_class WHERE relnamespace = 'tenure'::regnamespace";
    assert_eq!(database.psql(made), "0", "nothing is made in it");
    // The schema has our tables in it, and every role may use them.
    database.try_psql_at(&url, "DROP SCHEMA tenure").unwrap();
    drop(open(&url).await.unwrap());
    let grant = "GRANT USAGE ON SCHEMA tenure TO PUBLIC;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure TO PUBLIC;
         GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA tenure TO PUBLIC";
    database.try_psql_at(&url, grant).unwrap();
    is_configuration(&refused(&of_victim).await, &words);
    // A role can be made a member of another without being asked, so membership proves no trust.
    database.psql(&format!("GRANT {mallory} TO {victim}"));
    is_configuration(&refused(&of_victim).await, &words);
    // The owner of the database is trusted by every role that uses it.
    database.psql(&format!(
        "ALTER DATABASE {} OWNER TO {mallory}",
        database.name()
    ));
    take(&open(&of_victim).await.unwrap(), "b").await;
    is_configuration(&refused(&database.url()).await, &[&mallory, "superuser"]);
    database.psql(&format!(
        "ALTER DATABASE {} OWNER TO postgres",
        database.name()
    ));
    drop_role(&database, &victim);
    drop_role(&database, &mallory);
}

/// Another role does not have to own the schema: it can do as much if it may put triggers on the
/// tables, or functions beside ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_another_role_may_change_is_refused_with_what_to_revoke() {
    let (database, mallory) = with_maker();
    drop(open(&database.url()).await.unwrap());
    for (right, of) in [
        ("TRIGGER", "ON ALL TABLES IN SCHEMA tenure"),
        ("CREATE", "ON SCHEMA tenure"),
    ] {
        database.psql(&format!("GRANT {right} {of} TO {mallory}"));
        let revoke = format!("REVOKE {right} {of} FROM {mallory}");
        is_configuration(&refused(&database.url()).await, &[&revoke]);
        database.psql(&revoke);
        drop(open(&database.url()).await.unwrap());
    }
    drop_role(&database, &mallory);
}

/// Each of these objects runs with the rights of the role that uses the tables, or may be mistaken
/// for one of ours.
#[tokio::test(flavor = "multi_thread")]
async fn what_our_migrations_did_not_make_is_refused_by_name() {
    let database = Cluster::shared().database();
    drop(open(&database.url()).await.unwrap());
    database.psql(
        "CREATE FUNCTION public.evil() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$;
         CREATE FUNCTION public.evil_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
         CREATE DOMAIN public.evil_text AS text CHECK (public.evil());
         CREATE TABLE public.other (id text)",
    );
    let source = database.psql("SELECT prosrc FROM pg_proc WHERE proname = 'audit_is_append_only'");
    let ours = |more: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION tenure.audit_is_append_only() RETURNS trigger LANGUAGE plpgsql {more} AS \
             $body${source}$body$"
        )
    };
    let changed = "CREATE OR REPLACE FUNCTION tenure.audit_is_append_only() RETURNS trigger \
                   LANGUAGE plpgsql AS $$ BEGIN PERFORM public.evil(); RETURN NULL; END $$";
    let cases = [
        (
            "trigger grab",
            "CREATE TRIGGER grab BEFORE INSERT ON tenure.audit FOR EACH ROW EXECUTE FUNCTION public.evil_trigger()".into(),
            "DROP TRIGGER grab ON tenure.audit".into(),
        ),
        (
            "trigger audit_is_append_only",
            "CREATE OR REPLACE TRIGGER audit_is_append_only BEFORE INSERT ON tenure.audit FOR EACH ROW \
             WHEN (public.evil()) EXECUTE FUNCTION tenure.audit_is_append_only()"
                .into(),
            "CREATE OR REPLACE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON tenure.audit \
             FOR EACH STATEMENT EXECUTE FUNCTION tenure.audit_is_append_only()"
                .into(),
        ),
        (
            "rule grab",
            "CREATE RULE grab AS ON INSERT TO tenure.audit DO ALSO SELECT public.evil()".into(),
            "DROP RULE grab ON tenure.audit".into(),
        ),
        (
            "policy grab",
            "CREATE POLICY grab ON tenure.audit USING (public.evil())".into(),
            "DROP POLICY grab ON tenure.audit".into(),
        ),
        (
            "column reason",
            "ALTER TABLE tenure.audit ALTER reason SET DEFAULT public.evil()::text".into(),
            "ALTER TABLE tenure.audit ALTER reason DROP DEFAULT".into(),
        ),
        (
            "constraint grab",
            "ALTER TABLE tenure.audit ADD CONSTRAINT grab CHECK (public.evil())".into(),
            "ALTER TABLE tenure.audit DROP CONSTRAINT grab".into(),
        ),
        (
            "index tenure.grab",
            "CREATE INDEX grab ON tenure.audit (public.evil())".into(),
            "DROP INDEX tenure.grab".into(),
        ),
        (
            "index tenure.grab",
            "CREATE INDEX grab ON tenure.audit (seq) WHERE public.evil()".into(),
            "DROP INDEX tenure.grab".into(),
        ),
        (
            "column reason",
            "ALTER TABLE tenure.audit ALTER reason TYPE public.evil_text".into(),
            "ALTER TABLE tenure.audit ALTER reason TYPE text".into(),
        ),
        (
            "table public.child",
            "CREATE TABLE public.child () INHERITS (tenure.audit)".into(),
            "DROP TABLE public.child".into(),
        ),
        (
            "tenure.waiters",
            "ALTER TABLE tenure.waiters RENAME TO waiters_kept; \
             CREATE VIEW tenure.waiters AS SELECT * FROM tenure.waiters_kept WHERE public.evil()"
                .into(),
            "DROP VIEW tenure.waiters; ALTER TABLE tenure.waiters_kept RENAME TO waiters".into(),
        ),
        (
            "table tenure.more",
            "CREATE TABLE tenure.more ()".into(),
            "DROP TABLE tenure.more".into(),
        ),
        (
            "function tenure.release(text,integer)",
            "CREATE FUNCTION tenure.release(lease text, offer_ms int) RETURNS text LANGUAGE sql AS 'SELECT $1'".into(),
            "DROP FUNCTION tenure.release(text, int)".into(),
        ),
        ("function tenure.audit_is_append_only()", changed.into(), ours("")),
        (
            "function tenure.audit_is_append_only()",
            ours("SECURITY DEFINER"),
            ours(""),
        ),
        (
            "function tenure.audit_is_append_only()",
            ours("SET search_path = public"),
            ours(""),
        ),
        (
            "type tenure.kind",
            "CREATE TYPE tenure.kind AS ENUM ('a')".into(),
            "DROP TYPE tenure.kind".into(),
        ),
        (
            "operator tenure.=",
            "CREATE FUNCTION public.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'; \
             CREATE OPERATOR tenure.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same)"
                .into(),
            "DROP OPERATOR tenure.= (text, text)".into(),
        ),
    ];
    let cases: [(&str, String, String); 18] = cases;
    for (named, make, take_back) in cases {
        database.psql(&make);
        let error = refused(&database.url()).await;
        is_configuration(&error, &["did not make", named]);
        database.psql(&take_back);
        let store = open(&database.url()).await;
        let store = store.unwrap_or_else(|error| panic!("{take_back}: {error}"));
        let lease = take(&store, "a").await;
        store.release(&lease.lease).await.unwrap();
    }
    // Objects that run no code are left to the administrator.
    database.psql(
        "CREATE INDEX by_owner ON tenure.audit (owner); ANALYZE tenure.audit; \
         ALTER DEFAULT PRIVILEGES IN SCHEMA tenure GRANT SELECT ON TABLES TO PUBLIC",
    );
    take(&open(&database.url()).await.unwrap(), "a").await;
}

/// The first statements of a session are sent before it can check anything.
#[tokio::test(flavor = "multi_thread")]
async fn operators_in_the_search_path_of_the_database_are_never_used() {
    let database = Cluster::shared().database();
    database.psql(&format!(
        "CREATE SCHEMA evil;
         CREATE FUNCTION evil.grab(text, text) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'grabbed'; END $$;
         CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.grab);
         CREATE OPERATOR evil.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.grab);
         ALTER DATABASE {} SET search_path = evil, pg_catalog",
        database.name()
    ));
    let store = open(&database.url()).await.unwrap();
    let lease = take(&store, "a").await;
    store.release(&lease.lease).await.unwrap();
    let advisory = AdvisoryLocks::open(&database.url(), Settings::default()).await;
    drop(advisory.unwrap());
}

/// The statements of SECURITY.md, exactly as they stand there.
#[tokio::test(flavor = "multi_thread")]
async fn the_two_roles_of_the_security_page_work_and_are_apart() {
    let page = include_str!("../../../../SECURITY.md");
    let mut parts = page.split("```sql\n").skip(1);
    let mut part = || parts.next().unwrap().split("```").next().unwrap();
    let (roles, grants) = (part(), part());
    let cluster = Cluster::with(&tenure_testkit::postgres::Settings::default());
    let database = cluster.database();
    database.psql(roles);
    let at = |role: &str| {
        let url = as_role(&database.url(), role);
        url.replace(&format!("/{}", database.name()), "/locks")
    };
    let (owner, user) = (at("tenure_owner"), at("tenure_user"));
    drop(open(&owner).await.unwrap());
    database.try_psql_at(&owner, grants).unwrap();
    let store = open(&user).await.unwrap();
    let lease = take(&store, "a").await;
    store.release(&lease.lease).await.unwrap();
    let advisory = AdvisoryLocks::open(&user, Settings::default()).await;
    drop(advisory.unwrap());
    for attack in [
        "CREATE TABLE tenure.more ()",
        "CREATE TRIGGER grab BEFORE INSERT ON tenure.audit FOR EACH ROW \
         EXECUTE FUNCTION tenure.audit_is_append_only()",
        "ALTER TABLE tenure.audit DISABLE TRIGGER ALL",
        "CREATE SCHEMA other",
        "DROP SCHEMA tenure CASCADE",
        "UPDATE tenure.audit SET owner = 'x'",
    ] {
        let refused = database.try_psql_at(&user, attack).unwrap_err();
        let known = ["permission denied", "must be owner", "append-only"];
        assert!(known.iter().any(|word| refused.contains(word)), "{refused}");
    }
}
