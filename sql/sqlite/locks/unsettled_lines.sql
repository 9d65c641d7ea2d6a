-- unsettled_lines: locks that some wait for and nobody has, and those with a grant that was not confirmed in
-- time. ?1 after this name, ?2 up to this one, ?3 now
SELECT DISTINCT name FROM lock_claims AS waiter
WHERE name > ?1 AND name <= ?2 AND state = 'waiting'
  AND NOT EXISTS (SELECT 1 FROM lock_claims WHERE name = waiter.name AND state < 'waiting')
UNION
SELECT name FROM lock_claims WHERE name > ?1 AND name <= ?2 AND state = 'granted' AND gone <= ?3
