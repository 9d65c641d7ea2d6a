-- remove_holder: ?1 name, ?2 owner
DELETE FROM lock_claims WHERE name = ?1 AND state < 'waiting' AND owner = ?2
