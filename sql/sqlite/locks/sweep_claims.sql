-- sweep_claims: removes the records that have lingered for long enough. ?1 after this name, ?2 up to this
-- one, ?3 now
DELETE FROM lock_claims WHERE name > ?1 AND name <= ?2 AND state < 'waiting' AND gone <= ?3
