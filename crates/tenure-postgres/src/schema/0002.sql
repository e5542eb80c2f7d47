-- Tokens of advisory locks: one counter a database, and what proves that it never went back.

CREATE SEQUENCE tenure.advisory_tokens;

-- One row, or none. Unlogged on purpose: whatever loses draws of the counter, a crash, a failover, a restore
-- of files, empties it. See advisory/tokens.rs.
CREATE UNLOGGED TABLE tenure.advisory_epoch (
    server   timestamptz NOT NULL,      -- when the server was started
    database oid NOT NULL,              -- a copy has another
    sequence oid NOT NULL,              -- a counter made anew has another
    writer   bigint NOT NULL            -- the transaction that wrote the row: a restored row was written by another
);

-- What `AdvisoryStore` shows of its holders: one row a connection that holds. A row counts while its connection
-- holds the key, so what a crash leaves shows nothing. Unlogged, as all connections end with the server.
CREATE UNLOGGED TABLE tenure.advisory_holders (
    pid         integer PRIMARY KEY,    -- of the connection, at the server
    key         bigint NOT NULL,
    lease       text COLLATE "C" NOT NULL,
    resource    text COLLATE "C" NOT NULL,
    mode        text NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    session     text COLLATE "C" NOT NULL,
    token       bigint NOT NULL,
    acquired_at timestamptz NOT NULL,
    client_pid  bigint NOT NULL,
    host        text NOT NULL,
    command     text NOT NULL,
    purpose     text,
    metadata    text                    -- JSON
) WITH (fillfactor = 50);

-- The last token of each resource that `AdvisoryStore` granted exclusively.
CREATE TABLE tenure.advisory_last (
    resource text COLLATE "C" PRIMARY KEY,
    token    bigint NOT NULL
) WITH (fillfactor = 50);
