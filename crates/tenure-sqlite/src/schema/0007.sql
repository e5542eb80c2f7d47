-- The coding agent that took a lease, or waits for one, whatever owner it named. Null if none was detected.

ALTER TABLE dal_locks ADD COLUMN agent TEXT;
ALTER TABLE waiters ADD COLUMN agent TEXT;
