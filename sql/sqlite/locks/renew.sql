-- renew: prolongs a lease that nobody else has taken over. ?1 name, ?2 owner, ?3 now, ?4 ttl, ?5 every,
-- ?6 linger, ?7 renewals, ?8 metadata
UPDATE lock_claims SET ends = ?3 + ?4, gone = ?3 + ?4 + ?6, ttl = ?4, every = ?5, linger = ?6, renewals = ?7,
                       metadata = ?8, version = version + 1
WHERE name = ?1 AND state = 'held' AND owner = ?2 AND kind = 'x' AND gone > ?3
  AND NOT EXISTS (SELECT 1 FROM lock_claims WHERE name = ?1 AND state < 'waiting' AND owner <> ?2)
