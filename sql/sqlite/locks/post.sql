-- post: leaves word for a client of another process. ?1 now, ?2 client, ?3 message
INSERT INTO lock_messages (at, client, message) VALUES (?1, ?2, ?3)
