-- release_alone: gives back a lock that nobody else has anything to do with. ?1 name, ?2 owner
DELETE FROM lock_claims
WHERE name = ?1 AND state = 'held' AND owner = ?2 AND kind = 'x'
  AND NOT EXISTS (SELECT 1 FROM lock_claims WHERE name = ?1 AND owner <> ?2)
