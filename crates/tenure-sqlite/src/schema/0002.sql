-- Keys, under which the same request gets the same leases, and claims, which keep a lease
-- from being recovered.

CREATE TABLE keys (
    owner     TEXT NOT NULL,
    key       TEXT NOT NULL,
    request   TEXT NOT NULL,
    session   TEXT NOT NULL,          -- who asks now, while there are no leases
    leases    TEXT,                   -- JSON list of lease ids; null while asked
    made_at   TEXT NOT NULL,
    made_boot INTEGER NOT NULL,
    boot_id   TEXT NOT NULL,
    PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX keys_by_age ON keys (made_at);

CREATE TABLE lease_claims (
    lock_id  TEXT NOT NULL,
    claimant TEXT NOT NULL,
    session  TEXT NOT NULL,           -- the claim holds while it lives
    made_at  TEXT NOT NULL,
    PRIMARY KEY (lock_id, claimant)
) WITHOUT ROWID;
