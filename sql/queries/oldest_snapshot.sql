-- Who keeps vacuum from removing dead rows in this database: the oldest transaction, prepared
-- transaction, replication slot or standby.
-- Reply: none or one row: kind, pid, name, user, ms since it began or null, transactions begun since.
--
-- An open transaction without a snapshot or an id of its own (idle after reading) harms nobody; vacuum
-- ignores its own kind. Where the user may not see when somebody else's transaction began, that is null.
SELECT kind, pid, name, username, (extract(epoch FROM now() - began) * 1000)::bigint, transactions
FROM (
  SELECT CASE backend_type WHEN 'walsender' THEN 'replication' ELSE 'transaction' END AS kind,
         pid, application_name AS name, usename::text AS username, xact_start AS began,
         greatest(age(backend_xmin), age(backend_xid))::bigint AS transactions
  FROM pg_stat_activity
  WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND pid <> pg_backend_pid()
    AND backend_type IS DISTINCT FROM 'autovacuum worker'
    AND (datname = current_database() OR backend_type = 'walsender')
    AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
  UNION ALL
  SELECT 'prepared', NULL, gid, owner::text, prepared, age(transaction)::bigint
  FROM pg_prepared_xacts
  WHERE database = current_database()
  UNION ALL
  SELECT 'replication', active_pid, slot_name::text, NULL, NULL, age(xmin)::bigint
  FROM pg_replication_slots
  WHERE xmin IS NOT NULL
) AS holders
ORDER BY transactions DESC, began NULLS LAST
LIMIT 1
