-- Which kinds of store a database contains, and at which version.

-- name: schema_table
-- Makes the table that says which kinds of store the database contains.
CREATE TABLE IF NOT EXISTS leasehold_schema (
  kind    TEXT    PRIMARY KEY,   -- locks or tasks
  version INTEGER NOT NULL,      -- of its tables
  boot_id TEXT    NOT NULL       -- the start of the machine that its leases are counted from
) WITHOUT ROWID;

-- name: tables
-- How many tables there are, and whether one is ours.
SELECT count(*), count(*) FILTER (WHERE name = 'leasehold_schema') FROM sqlite_schema WHERE type = 'table'

-- name: version
-- What is known of one kind.
--   ?1 kind
SELECT version, boot_id FROM leasehold_schema WHERE kind = ?1

-- name: set_version
--   ?1 kind, ?2 version, ?3 boot id
INSERT INTO leasehold_schema (kind, version, boot_id) VALUES (?1, ?2, ?3)
ON CONFLICT (kind) DO UPDATE SET version = excluded.version, boot_id = excluded.boot_id
