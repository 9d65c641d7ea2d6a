-- ?1 id
DELETE FROM tasks WHERE id = ?1
