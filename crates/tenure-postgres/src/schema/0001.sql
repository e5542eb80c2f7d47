-- Locks: who holds what, who waits, who is there, and the record of it all.
-- Every time is the clock_timestamp() of the database, and decides.

CREATE TABLE tenure.store (
    id      text NOT NULL,
    made_at timestamptz NOT NULL
);
INSERT INTO tenure.store
    SELECT pg_catalog.gen_random_uuid()::text, pg_catalog.clock_timestamp();

-- One row a resource that was ever locked. Whoever changes anything about a resource holds its row.
-- `alone` is the shortcut for the empty cases: '' says that nobody holds it and nobody
-- waits, the id of a lease that this one holds it and nobody else holds or waits, and null nothing.
CREATE TABLE tenure.resources (
    resource text COLLATE "C" PRIMARY KEY,
    token    bigint NOT NULL,           -- of the last exclusive grant
    alone    text COLLATE "C"
) WITH (fillfactor = 50);

-- One record a lease.
CREATE TABLE tenure.dal_locks (
    lock_id       text COLLATE "C" PRIMARY KEY,
    owner         text COLLATE "C" NOT NULL,
    lease_expires timestamptz,          -- null while on offer
    heartbeat_ts  timestamptz NOT NULL,
    metadata      text,                 -- JSON
    resource      text COLLATE "C" NOT NULL,
    mode          text NOT NULL,        -- read, write, upgradeable
    upgraded      boolean NOT NULL DEFAULT false,
    upgraded_by   text COLLATE "C",     -- the session that waited for it to become write
    session       text COLLATE "C" NOT NULL,
    process       text COLLATE "C" NOT NULL, -- who is told of what happens to it
    token         bigint NOT NULL,
    acquired_at   timestamptz NOT NULL,
    state         text NOT NULL,        -- held, offered, revoking
    until         timestamptz,          -- when an offer or a revocation ends
    ttl_ms        bigint NOT NULL,
    pid           bigint NOT NULL,
    host          text NOT NULL,
    command       text NOT NULL,
    purpose       text,
    note          text                  -- who broke it, and why
);
CREATE INDEX dal_locks_by_resource ON tenure.dal_locks (resource, lock_id);
CREATE INDEX dal_locks_by_session ON tenure.dal_locks (session);

-- Whoever comes later has a higher place.
CREATE TABLE tenure.waiters (
    place          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lock_id        text COLLATE "C" NOT NULL,
    resource       text COLLATE "C" NOT NULL,
    want           text NOT NULL,       -- lease, upgrade
    mode           text NOT NULL,
    capacity       bigint,
    session        text COLLATE "C" NOT NULL, -- who waits
    holder_session text COLLATE "C" NOT NULL, -- who will hold, for re-entry
    process        text COLLATE "C" NOT NULL, -- who is woken, and whose presence keeps it in line
    owner          text COLLATE "C" NOT NULL,
    since          timestamptz NOT NULL,
    deadline       timestamptz,
    ttl_ms         bigint NOT NULL,
    pid            bigint NOT NULL,
    host           text NOT NULL,
    command        text NOT NULL,
    purpose        text,
    metadata       text
);
CREATE INDEX waiters_by_resource ON tenure.waiters (resource, place);
CREATE INDEX waiters_by_lease ON tenure.waiters (lock_id);

-- The processes that wait for something, and when each was last seen.
CREATE TABLE tenure.processes (
    process text COLLATE "C" PRIMARY KEY,
    seen_at timestamptz NOT NULL,
    pid     bigint NOT NULL,
    host    text NOT NULL
) WITH (fillfactor = 50);

-- There is no index on the resource: it would cost every grant and every release a page.
CREATE TABLE tenure.audit (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    action   text NOT NULL,
    resource text COLLATE "C" NOT NULL,
    lock_id  text COLLATE "C" NOT NULL,
    token    bigint NOT NULL,
    owner    text COLLATE "C" NOT NULL,
    actor    text COLLATE "C" NOT NULL,
    reason   text,
    ends     boolean NOT NULL DEFAULT false -- the entry with which a lease ended
);
CREATE INDEX audit_by_ended_lease ON tenure.audit (lock_id) WHERE ends;
CREATE FUNCTION tenure.audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON tenure.audit
    FOR EACH STATEMENT EXECUTE FUNCTION tenure.audit_is_append_only();

-- Keys, under which the same request gets the same leases.
CREATE TABLE tenure.keys (
    owner   text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    request text NOT NULL,
    session text COLLATE "C" NOT NULL,  -- who asks now, while there are no leases
    process text COLLATE "C" NOT NULL,  -- whose presence keeps the asking alive
    leases  text,                       -- JSON list of lease ids; null while asked
    made_at timestamptz NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX keys_by_age ON tenure.keys (made_at);

-- Claims, which keep a lease from being recovered while the process that made them is there.
CREATE TABLE tenure.lease_claims (
    lock_id  text COLLATE "C" NOT NULL,
    claimant text COLLATE "C" NOT NULL,
    session  text COLLATE "C" NOT NULL,
    process  text COLLATE "C" NOT NULL,
    made_at  timestamptz NOT NULL,
    PRIMARY KEY (lock_id, claimant)
);
