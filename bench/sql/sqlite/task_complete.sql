-- ?1 id   ?2 version
DELETE FROM tasks WHERE id = ?1 AND version = ?2
