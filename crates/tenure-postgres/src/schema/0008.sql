-- The coding agent that took a lease, or waits for one, whatever owner it named. Null if none was detected.

ALTER TABLE tenure.dal_locks ADD COLUMN agent text COLLATE "C";
ALTER TABLE tenure.waiters ADD COLUMN agent text COLLATE "C";

-- Ends a lease. 'ended' where nobody else holds and nobody waits; 'passed on' where nobody else holds and the first in
-- line waits to write: it has the resource on offer, and is told.
-- `asks` is who asks, for the audit; null stands for who took the lease.
CREATE FUNCTION tenure.release(lease text, offer_ms bigint, asks text) RETURNS text LANGUAGE plpgsql AS $$
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
        VALUES (now, 'release', about, lease, ended.token, ended.owner, coalesce(asks, ended.agent, ended.owner), true);
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
        token, acquired_at, state, until, ttl_ms, pid, host, command, purpose, agent)
    VALUES (first.lock_id, first.owner, now, first.metadata, about, first.mode, first.session, first.process,
        drawn, now, 'offered', least(now + offer_ms * interval '1 millisecond', first.deadline),
        first.ttl_ms, first.pid, first.host, first.command, first.purpose, first.agent);
    INSERT INTO tenure.audit (at, action, resource, lock_id, token, owner, actor, reason, ends)
    VALUES (now, 'release', about, lease, ended.token, ended.owner, coalesce(asks, ended.agent, ended.owner), NULL, true),
           (now, 'acquire', about, first.lock_id, drawn, first.owner, coalesce(first.agent, first.owner), 'next in line', false);
    -- The channel of a process is the ear's. Nobody relies on this before the offer is taken up, and that is on disk.
    PERFORM pg_catalog.pg_notify('tenure_' || first.process, first.lock_id),
        pg_catalog.set_config('synchronous_commit', 'off', true);
    RETURN 'passed on';
END $$;

-- For programs that were connected before this step.
CREATE OR REPLACE FUNCTION tenure.release(lease text, offer_ms bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN tenure.release(lease, offer_ms, NULL);
END $$;
