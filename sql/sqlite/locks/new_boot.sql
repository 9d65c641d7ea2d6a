-- new_boot: every lease of an earlier start of the machine has ended, as its holder has. What was held
-- exclusively is remembered for as long as any record of a vanished holder, from now on.
DELETE FROM lock_messages;
DELETE FROM lock_claims WHERE state <> 'held' OR kind <> 'x';
UPDATE lock_claims SET granted = :now - (ends - granted), gone = :now + linger, ends = :now;
UPDATE lock_tokens SET permits = NULL, place = NULL;
