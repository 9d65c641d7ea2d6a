-- ?1 name   ?2 owner
UPDATE locks SET owner = NULL WHERE name = ?1 AND owner = ?2
