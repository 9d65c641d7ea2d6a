-- tables: how many tables there are, and whether one is ours.
SELECT count(*), count(*) FILTER (WHERE name = 'leasehold_schema') FROM sqlite_schema WHERE type = 'table'
