-- names: a page of the locks that somebody holds or vanished with. ?1 the last name of the page before,
-- ?2 pattern, ?3 how many
SELECT DISTINCT name FROM lock_claims WHERE name > ?1 AND state < 'waiting' AND name GLOB ?2
ORDER BY name LIMIT ?3
