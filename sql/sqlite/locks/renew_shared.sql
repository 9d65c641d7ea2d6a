-- renew_shared: prolongs the lease of one of several holders. Values as in renew.
UPDATE lock_claims SET ends = ?3 + ?4, gone = ?3 + ?4 + ?6, ttl = ?4, every = ?5, linger = ?6, renewals = ?7,
                       metadata = ?8, version = version + 1
WHERE name = ?1 AND state = 'held' AND owner = ?2 AND kind <> 'x'
