-- The grace period of a lease: how old its heartbeat may get before others may recover it. Null where the default
-- counts: before a guard renews its lease for the first time, and in leases that an older Tenure made.

ALTER TABLE tenure.dal_locks ADD COLUMN grace_ms bigint;
