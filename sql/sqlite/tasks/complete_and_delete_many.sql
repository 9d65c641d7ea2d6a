-- Completes tasks by deleting them. For many this costs two thirds of complete_and_delete.sql for each.
--   ?1 their versions by id, as a JSON object
DELETE FROM task_queue
WHERE id IN (SELECT task.id
             FROM json_each(?1) AS done
             CROSS JOIN task_queue AS task ON task.id = CAST(done.key AS INTEGER)
                                          AND task.version = done.value)
