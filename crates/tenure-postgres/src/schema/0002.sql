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
