-- downgrade: makes an exclusive lease a shared one. Values as in renew.
UPDATE lock_claims SET kind = 's', ends = ?3 + ?4, gone = ?3 + ?4 + ?6, ttl = ?4, every = ?5, linger = ?6,
                       renewals = ?7, metadata = ?8, version = version + 1
WHERE name = ?1 AND state = 'held' AND owner = ?2
