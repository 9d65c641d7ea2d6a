-- grant: gives the lock to one who waits, until it confirms or the time to do so ends.
-- ?1 name, ?2 owner, ?3 now, ?4 end
UPDATE lock_claims SET state = 'granted', granted = ?3, ends = ?4, gone = ?4, renewals = 0, version = version + 1
WHERE name = ?1 AND state = 'waiting' AND owner = ?2
