-- The least a queue can do with: what is to be done, who has it and until when.
CREATE TABLE tasks (
  id INTEGER PRIMARY KEY, leased_by TEXT, lease_expiry INTEGER, payload TEXT NOT NULL
);
CREATE INDEX ready ON tasks (id) WHERE leased_by IS NULL;
