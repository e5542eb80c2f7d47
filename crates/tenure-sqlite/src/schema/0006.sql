-- What a waiter is counted to when circles are looked for: the leases of the runs around it, separated by blanks; and
-- whose its lease will be, 'person' or 'automated', if it outlasts the session.

ALTER TABLE waiters ADD COLUMN ancestors TEXT;
ALTER TABLE waiters ADD COLUMN lasting TEXT;
