-- set_place: ?1 name, ?2 the latest place in its line
INSERT INTO lock_tokens (name, place) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET place = ?2
