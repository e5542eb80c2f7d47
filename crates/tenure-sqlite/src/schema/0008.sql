-- What a coding agent holds, without reading what all others hold: its hooks ask at every event. Only the locks of agents are in it, so
-- that it costs no other lock anything.

CREATE INDEX dal_locks_by_agent ON dal_locks (owner, resource, lock_id)
    WHERE owner >= 'agent:' AND owner < 'agent;';
