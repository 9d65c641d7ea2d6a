-- sweep_claims: removes the records that have lingered for long enough. Grants that were not confirmed are
-- left to unsettled_lines: their clients are evicted with them. ?1 after this name, ?2 up to this one, ?3 now
DELETE FROM lock_claims WHERE name > ?1 AND name <= ?2 AND state = 'held' AND gone <= ?3
