-- sign_of_life: how often one who waits was asked for one since the last, and until when
-- it has time to answer, or need not be asked. ?1 name, ?2 owner, ?3 times, ?4 end
UPDATE lock_claims SET renewals = ?3, ends = ?4, version = version + 1
WHERE name = ?1 AND state = 'waiting' AND owner = ?2
