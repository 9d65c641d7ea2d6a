-- ?1 so many tasks
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
INSERT INTO tasks (payload) SELECT '{"id":' || n || '}' FROM numbers
