-- One migrator at a time in a schema; until the end of the transaction.
--   $1 schema
SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrations of ' || $1::text, 0))
