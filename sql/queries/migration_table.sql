-- Whether the schema has a table of migrations.
SELECT to_regclass('"leasehold".migrations') IS NOT NULL
