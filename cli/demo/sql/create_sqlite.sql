-- The effects of the demo's tasks. There is no unique key on the task: a second effect must be
-- possible, so that it can be detected.
CREATE TABLE demo_accounts (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE demo_effects (
  seq integer PRIMARY KEY AUTOINCREMENT,
  task integer NOT NULL,
  account integer, -- of a booking; null for a note
  token integer
);
