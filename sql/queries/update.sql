-- Changes a task that nobody has leased, if it is still at the expected version.
--   $1 id   $2 expected version   $3 payload   $4 priority   $5 run_at in µs   $6 progress; null: as is
-- Reply: the new version and the type if it was changed.
UPDATE "leasehold".tasks
SET payload = coalesce($3::json, payload), priority = coalesce($4::integer, priority),
    run_at = coalesce(timestamptz 'epoch' + $5::bigint * interval '1 us', run_at),
    progress = coalesce($6::json, progress), version = version + 1, updated_at = now()
WHERE id = $1::bigint AND version = $2::bigint AND state <> 'leased'
RETURNING version, type
