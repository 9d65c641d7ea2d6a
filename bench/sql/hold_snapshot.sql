-- A transaction that stays open for as long as its client does.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 'holds ' || txid_current();
