//! The check that an existing schema `tenure` is ours to use.
//!
//! Code that is attached to a table, a trigger for instance, runs with the rights of the role that
//! uses the table. Before anything in the schema is used, one look at the catalogue therefore finds
//! two things:
//!
//! 1. The roles that can change it: the owners of the schema and of the objects in it, and the
//!    roles with CREATE on the schema or TRIGGER on an object. Each must be a superuser, the owner
//!    of the database, or the role that connects. If the role that connects is a superuser, each
//!    must be one: no other role may decide what runs with those rights. Membership in the owner is
//!    not enough, as a role can be made a member without being asked: until PostgreSQL 14 by a role
//!    that logs in as the owner, and since 16 by a role that has CREATEROLE and made it.
//! 2. The objects in it that no step made. The steps of newer versions only add to [`LOOK`], so it
//!    knows the tables of every older version.
//!
//! A change by a role of 1 after the look is not seen. For that reason 1 is asked even where 2
//! finds nothing, and SECURITY.md says what the owner of a schema can do.
//!
//! The view is for people, and nothing here reads it: its definition runs nothing unless a person
//! queries it. Plain indexes are not looked at: they run no code that a role could bring along, and
//! REINDEX makes new ones. Event triggers, operator classes, casts and base types are not looked at
//! either: only a superuser makes those.

use tenure_core::{Error, Result};
use tokio_postgres::Row;

use crate::Address;
use crate::connect::Connection;

/// The schema that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaContent {
    /// There is no schema of that name.
    Nothing,
    /// The schema has nothing in it.
    Empty,
    /// The schema has the tables of some version.
    Tables,
}

/// Relies on no isolation: one look at the catalogue. It is not prepared, as it is asked once.
///
/// `advisory_holders` and `advisory_last` are no longer made; databases from before the first
/// release have them. 16384 is the first number of objects made after the server was set up. A
/// function is known by its source: a step that makes or replaces one is added here.
const LOOK: &str = "
    WITH me AS (
        SELECT oid, rolname, rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user
    ), space AS (
        SELECT oid, nspowner, nspacl FROM pg_catalog.pg_namespace WHERE nspname = 'tenure'
    ), things AS (
        SELECT d.classid, d.objid FROM pg_catalog.pg_depend AS d, space
        WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.refobjid = space.oid
          AND d.deptype = 'n'
    ), relations AS (
        SELECT c.tableoid, c.oid, c.relowner, c.relacl, c.relname = 'migrations' AS is_first,
            c.relkind = 'v' AND c.relname IN ('manifests', 'agents', 'turns') AS is_view,
            c.relkind::text || ' ' || c.relname IN ('r migrations', 'r store', 'r resources', 'r dal_locks',
                'r waiters', 'S waiters_place_seq', 'r processes', 'r audit', 'S audit_seq_seq', 'r keys',
                'r lease_claims', 'S advisory_tokens', 'r advisory_epoch', 'r advisory_holders',
                'r advisory_last', 'r records', 'r settings', 'v manifests', 'v agents', 'v turns') AS is_known
        FROM things JOIN pg_catalog.pg_class AS c ON c.oid = things.objid
        WHERE things.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
    ), functions AS (
        SELECT p.tableoid, p.oid, p.proowner, p.proname,
            l.lanname = 'plpgsql' AND p.prokind = 'f' AND NOT p.prosecdef AND p.proconfig IS NULL
            AND p.pronargdefaults = 0 AND p.prorettype < 16384
            AND NOT 16384 <= ANY (coalesce(p.proallargtypes, '{}'))
            AND (p.proname, p.proargtypes::text,
                pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p.prosrc, 'UTF8')), 'hex')) IN (
                ('audit_is_append_only', '', '8f6785f1f264eb6cc6d7131f308bc6d77a4a954af2966657aeab9aedc06070f8'),
                ('release', '25 20', 'a78786587a924634f2df4224a4dfb3f84610aa1999df6c7236c51966ad640447'),
                ('release', '25 20', 'a6e7c6dec89a3c21d198542a2694ddb2d544c1c3960985812ee9181f9daaee7f'),
                ('release', '25 20 25', 'e41589fbf76b2a1860be645df43c8c7caff2e86f13106ad4fb12c362c34bea7b'),
                ('take_up', '25 25', 'ab45fd71b19688b8a21b7598b7b660044b30636715c40a05fe4def84c4bd2589')
            ) AS is_known
        FROM things JOIN pg_catalog.pg_proc AS p ON p.oid = things.objid
        JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
        WHERE things.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
    ), strangers (class, id, part) AS (
        SELECT classid, objid, 0 FROM things
        WHERE (classid, objid) NOT IN (SELECT tableoid, oid FROM relations WHERE is_known
            UNION ALL SELECT tableoid, oid FROM functions WHERE is_known)
        UNION ALL
        SELECT t.tableoid, t.oid, 0 FROM relations AS r JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = r.oid
        WHERE NOT (t.tgname = 'audit_is_append_only' AND t.tgqual IS NULL
            AND t.tgfoid IN (SELECT oid FROM functions WHERE proname = 'audit_is_append_only'))
        UNION ALL
        SELECT w.tableoid, w.oid, 0 FROM relations AS r JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = r.oid
        WHERE NOT r.is_view
        UNION ALL
        SELECT p.tableoid, p.oid, 0 FROM relations AS r JOIN pg_catalog.pg_policy AS p ON p.polrelid = r.oid
        UNION ALL
        SELECT d.tableoid, d.oid, 0 FROM relations AS r JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = r.oid
        WHERE pg_catalog.pg_get_expr(d.adbin, d.adrelid) <> 'false'
        UNION ALL
        SELECT c.tableoid, c.oid, 0 FROM relations AS r JOIN pg_catalog.pg_constraint AS c ON c.conrelid = r.oid
        WHERE c.contype NOT IN ('p', 'n')
        UNION ALL
        SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid, 0
        FROM relations AS r JOIN pg_catalog.pg_index AS i ON i.indrelid = r.oid
        WHERE i.indexprs IS NOT NULL OR pg_catalog.pg_get_expr(i.indpred, i.indrelid) <> 'ends'
        UNION ALL
        SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, a.attrelid, a.attnum
        FROM relations AS r JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.oid
        WHERE a.atttypid >= 16384
        UNION ALL
        SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, i.inhrelid, 0
        FROM relations AS r JOIN pg_catalog.pg_inherits AS i ON i.inhparent = r.oid
    ), rights (role, held) AS (
        SELECT nspowner, 'owner' FROM space
        UNION SELECT relowner, 'owner' FROM relations
        UNION SELECT proowner, 'owner' FROM functions
        UNION SELECT a.grantee, 'CREATE ON SCHEMA tenure'
            FROM space, pg_catalog.aclexplode(nspacl) AS a WHERE a.privilege_type = 'CREATE'
        UNION SELECT a.grantee, 'TRIGGER ON ALL TABLES IN SCHEMA tenure'
            FROM relations, pg_catalog.aclexplode(relacl) AS a WHERE a.privilege_type = 'TRIGGER'
    ), changers AS (
        SELECT coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC') AS role, rights.held
        FROM rights LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = rights.role, me
        WHERE NOT coalesce(r.rolsuper OR NOT me.rolsuper AND r.oid IN (me.oid,
            (SELECT datdba FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())), false)
    )
    SELECT CASE WHEN NOT EXISTS (SELECT FROM space) THEN 'nothing' WHEN NOT EXISTS (SELECT FROM things) THEN 'empty'
            WHEN EXISTS (SELECT FROM relations WHERE is_first) THEN 'tables' ELSE 'others' END,
        pg_catalog.quote_ident(me.rolname), me.rolsuper,
        ARRAY (SELECT role FROM changers WHERE held = 'owner' ORDER BY 1),
        ARRAY (SELECT 'REVOKE ' || held || ' FROM ' || role FROM changers WHERE held <> 'owner' ORDER BY 1),
        ARRAY (SELECT DISTINCT coalesce(pg_catalog.pg_describe_object(class, id, part), 'something that is gone now')
            FROM strangers ORDER BY 1 LIMIT 4)
    FROM me";

/// Returns the schema that is there. Fails if it is not ours.
pub(super) async fn look(connection: &Connection, address: &Address) -> Result<SchemaContent> {
    let rows = connection.query(LOOK, &[]).await?;
    let row = rows.first();
    let row = row.ok_or_else(|| Error::Internal("the catalogue says nothing".into()))?;
    judge(row, address)
}

fn judge(row: &Row, address: &Address) -> Result<SchemaContent> {
    let (role, is_super): (String, bool) = (row.get(1), row.get(2));
    let (owners, revokes): (Vec<String>, Vec<String>) = (row.get(3), row.get(4));
    let strangers: Vec<String> = row.get(5);
    let refused = |problem: String, remedy: String| {
        let problem = format!("{address}: {problem}");
        Err(Error::configuration(problem, remedy))
    };
    let whose = if is_super {
        format!("{role}, a superuser")
    } else {
        role.clone()
    };
    if !owners.is_empty() {
        let owners = owners.join(" and ");
        return refused(
            format!(
                "the schema tenure, or part of it, belongs to {owners}, who could have anything done with the \
                 rights of {whose}"
            ),
            format!(
                "connect as {owners} if that is who should own it; else let the owner of the database make it anew, \
                 and grant {role} its use (SECURITY.md has the statements), or choose another database"
            ),
        );
    }
    if !revokes.is_empty() {
        return refused(
            format!(
                "others than its owner may change the schema tenure, and could have anything done with the rights \
                 of {whose}"
            ),
            format!("let its owner run: {}", revokes.join("; ")),
        );
    }
    let found = match row.get(0) {
        "nothing" => SchemaContent::Nothing,
        "empty" => SchemaContent::Empty,
        "tables" => SchemaContent::Tables,
        _ => {
            let remedy = "choose another database, or rename that schema";
            let problem = "it has a schema named tenure of another program";
            return refused(problem.into(), remedy.into());
        }
    };
    if strangers.is_empty() {
        return Ok(found);
    }
    refused(
        format!(
            "the schema tenure has what tenure did not make, and what may run with the rights of {whose}: {}",
            strangers.join(", ")
        ),
        "find out who made it, and drop it or make it as it was; where a newer tenure did: upgrade this one".into(),
    )
}
