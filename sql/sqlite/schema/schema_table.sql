-- schema_table: makes the table that says which kinds of store the database contains.
CREATE TABLE IF NOT EXISTS leasehold_schema (
  kind    TEXT    PRIMARY KEY,   -- locks or tasks
  version INTEGER NOT NULL,      -- of its tables
  boot_id TEXT    NOT NULL       -- the start of the machine that its leases are counted from
) WITHOUT ROWID;
