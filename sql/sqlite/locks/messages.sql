-- messages: ?1 the latest id that was read, ?2 client
SELECT id, message FROM lock_messages WHERE id > ?1 AND client = ?2 ORDER BY id
