-- Migrating a schema.

-- name: migration_lock
-- Allows one migrator at a time in a schema, until the end of the transaction.
--   $1 schema
SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrations of ' || $1::text, 0))

-- name: migration_table
-- Whether the schema has a table of migrations.
SELECT to_regclass('"leasehold".migrations') IS NOT NULL

-- name: migration_version
-- The number of the newest migration that was applied, or 0; and of the one that a program must know.
SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM "leasehold".migrations
