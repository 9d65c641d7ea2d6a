-- For pgbench: inserts one task and commits, the least that enqueue() can do.
INSERT INTO raw.tasks (type, payload) VALUES ('bench0', '{}');
