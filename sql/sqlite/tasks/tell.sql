-- Tells other processes of a task that is ready again, as if one had been added; an id is left out for it.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'task_queue'
