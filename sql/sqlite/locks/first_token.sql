-- first_token: the same for a new name. ?1 name, ?2 token
INSERT INTO lock_tokens (name, token) VALUES (?1, ?2)
