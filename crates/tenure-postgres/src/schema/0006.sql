-- What all who use the store agree upon. 'order' has the kinds of resources in the order they are taken, separated by
-- blanks; without it that is the default order.

CREATE TABLE tenure.settings (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
