-- The plain cases of a release and of taking up an offer, in one round trip each. Every statement in these functions
-- sees what was committed before it began, so what it reads after the row of the resource is locked is so. Where a
-- case is not plain they change nothing, and say nothing: it is for `decide`.
--
-- From here on `alone` says more: the id of a lease and a plus, that this one holds it, nobody else does, and others
-- wait, none of them to upgrade it.

-- Ends a lease. 'ended' where nobody else holds and nobody waits; 'passed on' where nobody else holds and the first in
-- line waits to write: it has the resource on offer, and is told.
CREATE FUNCTION tenure.release(lease text, offer_ms bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    about text;
    holds text;
    now   timestamptz;
    ended tenure.dal_locks;
    first tenure.waiters;
    drawn bigint;
BEGIN
    SELECT r.resource, r.alone INTO about, holds FROM tenure.resources r WHERE r.resource =
        (SELECT h.resource FROM tenure.dal_locks h WHERE h.lock_id = lease) FOR UPDATE;
    now := pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp());

    IF holds = lease THEN
        UPDATE tenure.resources SET alone = '' WHERE resource = about;
        DELETE FROM tenure.lease_claims WHERE lock_id = lease;
        DELETE FROM tenure.dal_locks WHERE lock_id = lease RETURNING * INTO ended;
        INSERT INTO tenure.audit (at, action, resource, lock_id, token, owner, actor, ends)
        VALUES (now, 'release', about, lease, ended.token, ended.owner, ended.owner, true);
        RETURN 'ended';
    END IF;

    IF holds = lease || '+' THEN
        SELECT w.* INTO first FROM (SELECT * FROM tenure.waiters WHERE resource = about ORDER BY place LIMIT 1) w
        WHERE w.want = 'lease' AND w.mode = 'write' AND w.capacity IS NULL
            AND (w.deadline > now OR w.deadline IS NULL)
            AND EXISTS (SELECT FROM tenure.processes p
                WHERE p.process = w.process AND p.seen_at > now - interval '15 seconds');
    END IF;
    IF first.place IS NULL THEN
        RETURN NULL;
    END IF;

    UPDATE tenure.resources SET alone = NULL, token = greatest(token + 1,
        (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint)
    WHERE resource = about RETURNING token INTO drawn;
    DELETE FROM tenure.lease_claims WHERE lock_id = lease;
    DELETE FROM tenure.dal_locks WHERE lock_id = lease RETURNING * INTO ended;
    DELETE FROM tenure.waiters WHERE place = first.place;
    INSERT INTO tenure.dal_locks (lock_id, owner, heartbeat_ts, metadata, resource, mode, session, process,
        token, acquired_at, state, until, ttl_ms, pid, host, command, purpose)
    VALUES (first.lock_id, first.owner, now, first.metadata, about, first.mode, first.session, first.process,
        drawn, now, 'offered', least(now + offer_ms * interval '1 millisecond', first.deadline),
        first.ttl_ms, first.pid, first.host, first.command, first.purpose);
    INSERT INTO tenure.audit (at, action, resource, lock_id, token, owner, actor, reason, ends)
    VALUES (now, 'release', about, lease, ended.token, ended.owner, ended.owner, NULL, true),
           (now, 'acquire', about, first.lock_id, drawn, first.owner, first.owner, 'next in line', false);
    -- The channel of a process is the ear's. Nobody relies on this before the offer is taken up, and that is on disk.
    PERFORM pg_catalog.pg_notify('tenure_' || first.process, first.lock_id),
        pg_catalog.set_config('synchronous_commit', 'off', true);
    RETURN 'passed on';
END $$;

-- Takes up an offer: its time begins. No token where there is no such offer, or not any more.
CREATE FUNCTION tenure.take_up(lease text, about text,
    OUT token bigint, OUT acquired_at timestamptz, OUT now timestamptz) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tenure.resources r WHERE r.resource = about FOR UPDATE;
    now := pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp());
    UPDATE tenure.dal_locks l SET lease_expires = now + l.ttl_ms * interval '1 millisecond', heartbeat_ts = now,
        state = 'held', until = NULL
    WHERE l.lock_id = lease AND l.resource = about AND l.state = 'offered' AND l.until > now
    RETURNING l.token, l.acquired_at INTO token, acquired_at;
    IF FOUND THEN
        UPDATE tenure.resources r
        SET alone = CASE WHEN EXISTS (SELECT FROM tenure.waiters w WHERE w.resource = about)
            THEN lease || '+' ELSE lease END
        WHERE r.resource = about
            AND NOT EXISTS (SELECT FROM tenure.dal_locks l WHERE l.resource = about AND l.lock_id <> lease);
    END IF;
END $$;
