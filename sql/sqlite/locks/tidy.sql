-- tidy: forgets what only those who share a lock or wait for it needed. ?1 name
UPDATE lock_tokens SET permits = NULL, place = NULL
WHERE name = ?1 AND (permits IS NOT NULL OR place IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM lock_claims
                  WHERE name = ?1 AND (state <> 'held' OR kind <> 'x'))
