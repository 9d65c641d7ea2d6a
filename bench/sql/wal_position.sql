-- Bytes of WAL that were written since the server was made.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0');
