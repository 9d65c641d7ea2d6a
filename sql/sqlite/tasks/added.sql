-- Grows whenever tasks are added: how other processes learn of them.
SELECT seq FROM sqlite_sequence WHERE name = 'task_queue'
