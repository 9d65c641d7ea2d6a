-- token: what is remembered of a name. ?1 name
SELECT token, permits, place FROM lock_tokens WHERE name = ?1
