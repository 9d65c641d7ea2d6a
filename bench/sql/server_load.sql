-- Connections to this database other than ours, and transactions that were committed in it.
SELECT (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()),
       (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database());
