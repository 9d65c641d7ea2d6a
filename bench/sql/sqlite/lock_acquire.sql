-- ?1 name   ?2 owner   ?3 expiry   ?4 now
INSERT INTO locks (name, owner, expiry, token) VALUES (?1, ?2, ?3, 1)
ON CONFLICT (name) DO UPDATE SET owner = ?2, expiry = ?3, token = token + 1
  WHERE owner IS NULL OR expiry < ?4
