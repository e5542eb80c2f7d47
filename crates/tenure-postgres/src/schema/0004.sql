-- Records: rows above the locks, of every kind in one table.

-- A row with version 0 is there only inside the transaction that made it, to keep others from making it.
CREATE TABLE tenure.records (
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    state      text COLLATE "C",
    owner      text COLLATE "C",
    subject    text COLLATE "C",
    changed_at timestamptz NOT NULL,
    changed_by text COLLATE "C" NOT NULL, -- the call that changed it last, so that it finds its own work again
    body       text NOT NULL,             -- JSON
    PRIMARY KEY (kind, id)
) WITH (fillfactor = 70);
CREATE INDEX records_by_state ON tenure.records (kind, state, id);
CREATE INDEX records_by_owner ON tenure.records (kind, owner, id);
CREATE INDEX records_by_subject ON tenure.records (kind, subject, id);

-- For people with psql: nothing of Tenure reads it.
CREATE VIEW tenure.manifests AS
SELECT m.id,
    m.body::json ->> 'op_type' AS op_type,
    m.body::json ->> 'target' AS target_path,
    m.body::json ->> 'tmp' AS tmp_path,
    (SELECT pg_catalog.json_agg(f.value) FROM tenure.records AS p,
        pg_catalog.json_array_elements(p.body::json -> 'files') AS f
        WHERE p.kind = 'manifest_files' AND p.subject = m.id) AS expected_files,
    m.body::json ->> 'created_at' AS created_at,
    m.state,
    m.body::json ->> 'committed_at' AS committed_at,
    m.body::json ->> 'author' AS author,
    (m.body::json ->> 'token')::bigint AS token,
    m.body::json ->> 'host' AS host,
    m.version
FROM tenure.records AS m WHERE m.kind = 'manifest';
