-- What an owner holds, without reading what all others hold. Hooks of coding agents ask at every event.

CREATE INDEX dal_locks_by_owner ON tenure.dal_locks (owner, resource, lock_id);
