-- What all who use the store agree upon. 'order' has the kinds of resources in the order they are taken, separated by
-- blanks; without it that is the default order.

CREATE TABLE settings (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID;
