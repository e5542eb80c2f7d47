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

-- For people with psql: nothing of Tenure reads these views.
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

CREATE VIEW tenure.agents AS
SELECT (a.body::json ->> 'id')::int AS id,
    a.id AS session,
    a.body::json ->> 'program' AS program,
    a.owner,
    a.state,
    a.body::json ->> 'doing' AS doing,
    a.body::json ->> 'cwd' AS cwd,
    a.body::json ->> 'host' AS host,
    a.body::json ->> 'started_at' AS started_at,
    a.body::json ->> 'last_seen' AS last_seen,
    a.body::json ->> 'prompt_injected_at' AS prompt_injected_at,
    a.version
FROM tenure.records AS a WHERE a.kind = 'agent';

CREATE VIEW tenure.turns AS
SELECT (t.body::json ->> 'agent')::int AS agent,
    (t.body::json ->> 'number')::int AS number,
    t.subject AS session,
    t.body::json ->> 'by' AS by,
    t.body::json ->> 'text' AS text,
    t.body::json ->> 'at' AS at,
    t.body::json ->> 'summary' AS summary,
    t.version
FROM tenure.records AS t WHERE t.kind = 'agent_turn';
