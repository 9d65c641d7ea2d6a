-- set_permits: ?1 name, ?2 permits
INSERT INTO lock_tokens (name, permits) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET permits = ?2
