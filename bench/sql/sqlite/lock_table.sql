-- The least a lock can do with: who has it, until when, and a number that grows.
CREATE TABLE locks (name TEXT PRIMARY KEY, owner TEXT, expiry INTEGER, token INTEGER) WITHOUT ROWID;
