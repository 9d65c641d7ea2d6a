-- Takes back all expired leases in one statement; says how long that took.
--   schema
\timing on
UPDATE :"schema".tasks
SET state = 'pending', version = version + 1, crash_count = crash_count + 1, leased_by = NULL,
    lease_expiry = NULL
WHERE state = 'leased' AND lease_expiry < now();
