-- The grace period of a lease of its own: how old its heartbeat may get before others may recover it.
-- Null while it is bound to its session; and in leases that an older Tenure bound, where the default counts.

ALTER TABLE dal_locks ADD COLUMN grace_ms INTEGER;
