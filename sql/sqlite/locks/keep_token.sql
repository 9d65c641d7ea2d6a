-- keep_token: makes sure that a token is remembered. ?1 name, ?2 token
INSERT INTO lock_tokens (name, token) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET token = max(token, excluded.token)
