-- newest_message: its id; null if there is none.
SELECT max(id) FROM lock_messages
