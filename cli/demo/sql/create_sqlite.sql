-- What the tasks of the demo have an effect on. No unique key on the task: a second effect must be
-- possible, so that it can be seen.
CREATE TABLE demo_accounts (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE demo_effects (
  seq integer PRIMARY KEY AUTOINCREMENT,
  task integer NOT NULL,
  account integer, -- of a booking; null for a note
  token integer
);
