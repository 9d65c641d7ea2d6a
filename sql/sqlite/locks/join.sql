-- join: stands in line. ?1 … ?11 as in hold, ?12 kind, ?13 permits, ?14 priority, ?15 place, ?16 score
INSERT INTO lock_claims (name, state, owner, kind, client, runner, incarnation, about, metadata, ttl, every,
                         linger, granted, ends, gone, permits, priority, place, score)
VALUES (?1, 'waiting', ?2, ?12, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, 0, ?13, ?14, ?15, ?16)
