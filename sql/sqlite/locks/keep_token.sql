-- keep_token: makes sure that a token is remembered of a known name. ?1 name, ?2 token
UPDATE lock_tokens SET token = max(token, ?2) WHERE name = ?1
