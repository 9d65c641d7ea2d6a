-- The effects of the demo's tasks. There is no unique key on the task: a second effect must be
-- possible, so that it can be detected.
CREATE TABLE demo_accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE demo_effects (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task bigint NOT NULL,
  account bigint, -- of a booking; null for a note
  token bigint
);
