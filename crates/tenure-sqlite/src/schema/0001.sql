-- Locks: who holds what, who waits, who is alive, and the record of it all.
-- Times are ISO 8601 UTC of fixed width, for people; *_boot columns are milliseconds since
-- boot and decide on this boot.

CREATE TABLE store (
    id      TEXT NOT NULL,
    made_at TEXT NOT NULL
);

-- One record a lease. Without row numbers: ids begin with the time, so that leases are added at
-- the end of the tree, and a grant writes one page less.
CREATE TABLE dal_locks (
    lock_id        TEXT PRIMARY KEY NOT NULL,
    owner          TEXT NOT NULL,
    lease_expires  TEXT,              -- null while bound to its session
    heartbeat_ts   TEXT NOT NULL,
    metadata       TEXT,              -- JSON
    resource       TEXT NOT NULL,
    mode           TEXT NOT NULL,     -- read, write, upgradeable
    upgraded       INTEGER NOT NULL DEFAULT 0,
    upgraded_by    TEXT,              -- the session that waited for it to become write
    session        TEXT NOT NULL,
    token          INTEGER NOT NULL,
    acquired_at    TEXT NOT NULL,
    binding        TEXT NOT NULL,     -- session, lease
    state          TEXT NOT NULL,     -- held, offered, revoking
    until_boot     INTEGER,           -- when an offer or a revocation ends
    expires_boot   INTEGER,
    heartbeat_boot INTEGER,
    ttl_ms         INTEGER,
    boot_id        TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    host           TEXT NOT NULL,
    command        TEXT NOT NULL,
    purpose        TEXT,
    note           TEXT               -- who broke it, and why
) WITHOUT ROWID;
CREATE INDEX dal_locks_by_resource ON dal_locks (resource, lock_id);
CREATE INDEX dal_locks_by_session ON dal_locks (session) WHERE expires_boot IS NOT NULL;

-- The token of the last exclusive grant of each resource.
CREATE TABLE resources (
    resource TEXT PRIMARY KEY NOT NULL,
    token    INTEGER NOT NULL
) WITHOUT ROWID;

-- Whoever comes later has a higher place. One index serves the line and, as it holds the id, who
-- looks for itself in it.
CREATE TABLE waiters (
    place          INTEGER PRIMARY KEY,
    lock_id        TEXT NOT NULL,
    resource       TEXT NOT NULL,
    want           TEXT NOT NULL,     -- lease, upgrade
    mode           TEXT NOT NULL,
    capacity       INTEGER,
    session        TEXT NOT NULL,     -- who waits, for the proof of life
    holder_session TEXT NOT NULL,     -- who will hold, for re-entry
    owner          TEXT NOT NULL,
    since          TEXT NOT NULL,
    deadline       TEXT,
    deadline_boot  INTEGER,
    boot_id        TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    host           TEXT NOT NULL,
    command        TEXT NOT NULL,
    purpose        TEXT,
    metadata       TEXT
);
CREATE INDEX waiters_by_resource ON waiters (resource, place, lock_id);

-- Where the proof of life of each session is: the file with this device and inode, under
-- the kernel's lock, on this boot.
CREATE TABLE sessions (
    session    TEXT PRIMARY KEY NOT NULL,
    device     INTEGER NOT NULL,
    inode      INTEGER NOT NULL,
    boot_id    TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    host       TEXT NOT NULL,
    owner      TEXT NOT NULL,
    started_at TEXT NOT NULL
) WITHOUT ROWID;

-- Entries are never removed, so plain row numbers only grow. There is no index on the resource: it
-- would cost every grant and every release a page, and reading the record of one resource, in
-- windows of row numbers, can take a moment.
CREATE TABLE audit (
    seq      INTEGER PRIMARY KEY CHECK (seq > 0),
    at       TEXT NOT NULL,
    action   TEXT NOT NULL,
    resource TEXT NOT NULL,
    lock_id  TEXT NOT NULL,
    token    INTEGER NOT NULL,
    owner    TEXT NOT NULL,
    actor    TEXT NOT NULL,
    reason   TEXT,
    ends     INTEGER                  -- 1 on the entry with which a lease-bound lease ended
);
CREATE INDEX audit_by_ended_lease ON audit (lock_id) WHERE ends = 1;
CREATE TRIGGER audit_is_never_updated BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
-- INSERT OR REPLACE deletes without firing the trigger above, and needs a number to do it.
-- An entry that leaves its number to the database has -1 here.
CREATE TRIGGER audit_is_never_replaced BEFORE INSERT ON audit WHEN NEW.seq <> -1
BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
