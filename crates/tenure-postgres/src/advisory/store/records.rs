//! What others see of a lease, written by the connection that holds it.
//!
//! A record is written after the grant and counts while its connection holds the key, so whatever a crash leaves
//! shows nothing. The token of an exclusive grant is noted in the same statement, which is durable before it is told:
//! `token` never answers one that is behind what was told.

use tenure_core::{Mode, Request, Resource, Result, Timestamp, Token};

use super::super::guard::{Guard, Recorder};
use super::super::tokens;

/// Relies on no isolation: both rows are only written by whoever holds the key. `synchronous_commit` counts for
/// this statement alone.
const SHOW: &str = "
    WITH noted AS (
        INSERT INTO tenure.advisory_last AS l (resource, token)
        SELECT $3::text, $7::bigint WHERE $7::bigint > 0
        ON CONFLICT (resource) DO UPDATE SET token = greatest(l.token, excluded.token)
        RETURNING token, pg_catalog.set_config('synchronous_commit', 'on', true)
    )
    INSERT INTO tenure.advisory_holders (pid, key, lease, resource, mode, owner, session, token, acquired_at,
        client_pid, host, command, purpose, metadata)
    VALUES (pg_catalog.pg_backend_pid(), $1, $2, $3::text, $4, $5, $6,
        coalesce((SELECT token FROM noted), (SELECT token FROM tenure.advisory_last WHERE resource = $3::text), 0),
        pg_catalog.clock_timestamp(), $8, $9, $10, $11, $12)
    ON CONFLICT (pid) DO UPDATE SET key = excluded.key, lease = excluded.lease, resource = excluded.resource,
        mode = excluded.mode, owner = excluded.owner, session = excluded.session, token = excluded.token,
        acquired_at = excluded.acquired_at, client_pid = excluded.client_pid, host = excluded.host,
        command = excluded.command, purpose = excluded.purpose, metadata = excluded.metadata
    RETURNING token, pg_catalog.floor(pg_catalog.date_part('epoch', acquired_at) * 1000)::bigint";

/// The record is that of the connection itself.
const RAISE: &str = "
    WITH noted AS (
        INSERT INTO tenure.advisory_last AS l (resource, token)
        SELECT $1::text, $3::bigint WHERE $3::bigint > 0
        ON CONFLICT (resource) DO UPDATE SET token = greatest(l.token, excluded.token)
        RETURNING token, pg_catalog.set_config('synchronous_commit', 'on', true)
    )
    UPDATE tenure.advisory_holders AS h SET mode = $2, token = coalesce((SELECT n.token FROM noted AS n), h.token)
    WHERE pid = pg_catalog.pg_backend_pid()";

/// Shows a lease: its token, and when it began. An exclusive one has drawn its token; any other carries the last.
pub(super) async fn show(
    guard: &Guard,
    request: &Request,
    drawn: Option<Token>,
) -> Result<(Token, Timestamp)> {
    let recorder = guard.recorder()?;
    let asker = &request.asker;
    let metadata = request.metadata.as_ref().map(ToString::to_string);
    let rows = recorder
        .rows(
            SHOW,
            &[
                &recorder.key().bits(),
                &request.lease.as_str(),
                &request.resource.as_str(),
                &request.mode.as_str(),
                &asker.owner.as_str(),
                &asker.session.as_str(),
                &number(drawn),
                &i64::from(asker.pid),
                &asker.host,
                &asker.command,
                &request.purpose,
                &metadata,
            ],
        )
        .await?;
    let row = rows.first();
    let (token, at) = row.map_or((0, 0), |row| (row.get(0), row.get(1)));
    Ok((tokens::token(token)?, Timestamp::from_millis(at)))
}

/// Shows another mode of a lease, with the token it drew.
pub(super) async fn raise(
    recorder: &Recorder,
    resource: &Resource,
    mode: Mode,
    drawn: Option<Token>,
) -> Result<()> {
    let values = [
        &resource.as_str() as _,
        &mode.as_str() as _,
        &number(drawn) as _,
    ];
    recorder.rows(RAISE, &values).await.map(|_| ())
}

/// A token is below 2^53.
fn number(token: Option<Token>) -> i64 {
    token.map_or(0, |token| token.get().cast_signed())
}
