-- Records: rows above the locks, of every kind in one table.

-- With row numbers: bodies are long, and the tree of the key stays small beside them.
CREATE TABLE records (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL,
    state      TEXT,
    owner      TEXT,
    subject    TEXT,
    changed_at TEXT NOT NULL,
    body       TEXT NOT NULL,          -- JSON
    PRIMARY KEY (kind, id)
);
CREATE INDEX records_by_state ON records (kind, state, id) WHERE state IS NOT NULL;
CREATE INDEX records_by_owner ON records (kind, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX records_by_subject ON records (kind, subject, id) WHERE subject IS NOT NULL;

-- For people with sqlite3: nothing of Tenure reads these views.
CREATE VIEW manifests AS
SELECT id,
    json_extract(body, '$.op_type') AS op_type,
    json_extract(body, '$.target') AS target_path,
    json_extract(body, '$.tmp') AS tmp_path,
    (SELECT json_group_array(json(file.value)) FROM records AS part, json_each(part.body, '$.files') AS file
        WHERE part.kind = 'manifest_files' AND part.subject = manifest.id) AS expected_files,
    json_extract(body, '$.created_at') AS created_at,
    state,
    json_extract(body, '$.committed_at') AS committed_at,
    json_extract(body, '$.author') AS author,
    json_extract(body, '$.token') AS token,
    json_extract(body, '$.host') AS host,
    version
FROM records AS manifest WHERE kind = 'manifest';

CREATE VIEW agents AS
SELECT json_extract(body, '$.id') AS id,
    id AS session,
    json_extract(body, '$.program') AS program,
    owner,
    state,
    json_extract(body, '$.doing') AS doing,
    json_extract(body, '$.cwd') AS cwd,
    json_extract(body, '$.host') AS host,
    json_extract(body, '$.started_at') AS started_at,
    json_extract(body, '$.last_seen') AS last_seen,
    json_extract(body, '$.prompt_injected_at') AS prompt_injected_at,
    version
FROM records WHERE kind = 'agent';

CREATE VIEW turns AS
SELECT json_extract(body, '$.agent') AS agent,
    json_extract(body, '$.number') AS number,
    subject AS session,
    json_extract(body, '$.by') AS "by",
    json_extract(body, '$.text') AS text,
    json_extract(body, '$.at') AS at,
    json_extract(body, '$.summary') AS summary,
    version
FROM records WHERE kind = 'agent_turn';
