-- The least a queue can do with: what is to be done, who has it, until when and by which lease.
CREATE TABLE tasks (
  id INTEGER PRIMARY KEY, version INTEGER NOT NULL DEFAULT 0, leased_by TEXT, lease_expiry INTEGER,
  payload TEXT NOT NULL
);
CREATE INDEX ready ON tasks (id) WHERE leased_by IS NULL;
