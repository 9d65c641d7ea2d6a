-- 1: locks. Times are ms since the machine was started (see lib/src/sqlite/machine_clock.hpp). The tables
-- are no public interface.

-- Who holds a lock, was granted it, or waits for it. A holder whose lease has ended stays, until `gone`,
-- so that whoever comes next learns of it.
CREATE TABLE lock_claims (
  name        TEXT    NOT NULL,
  -- held; granted: by the line, until it is confirmed; waiting. In the order of the alphabet, so that
  -- state < 'waiting' are those who have the lock. With OR: for an IN list SQLite makes a table of its own,
  -- in every INSERT and UPDATE.
  state       TEXT    NOT NULL CHECK (state = 'granted' OR state = 'held' OR state = 'waiting'),
  owner       TEXT    NOT NULL,            -- 32 hex digits, new for each claim
  kind        TEXT    NOT NULL,            -- x: alone; s: shared; p: one of so many permits
  client      TEXT    NOT NULL,            -- who is to be told
  runner      TEXT    NOT NULL,
  incarnation TEXT    NOT NULL,
  about       TEXT    NOT NULL,            -- JSON: pid, host, platform
  metadata    TEXT    NOT NULL,            -- JSON or empty
  ttl         INTEGER NOT NULL,
  every       INTEGER NOT NULL,            -- ms between heartbeats, 0 if none are promised
  linger      INTEGER NOT NULL,            -- ms that the record stays after the lease
  granted     INTEGER NOT NULL,            -- or since when it waits
  ends        INTEGER NOT NULL,            -- of the lease, or of the time to confirm a grant; of one who waits: see
                                           -- sign_of_life
  gone        INTEGER NOT NULL,
  renewals    INTEGER NOT NULL DEFAULT 0,
  token       INTEGER NOT NULL DEFAULT 0,  -- 0 until it holds the lock
  version     INTEGER NOT NULL DEFAULT 1,  -- grows with every change
  permits     INTEGER NOT NULL DEFAULT 0,  -- that it brought along
  priority    INTEGER NOT NULL DEFAULT 0,
  place       INTEGER NOT NULL DEFAULT 0,
  score       REAL    NOT NULL DEFAULT 0,  -- the lowest of those who wait is next
  PRIMARY KEY (name, state, owner)
) WITHOUT ROWID;

-- Partial: a lock that nobody waits for costs nothing here.
CREATE INDEX lock_line ON lock_claims (name, score, owner) WHERE state = 'waiting';

-- What is remembered of a name.
CREATE TABLE lock_tokens (
  name    TEXT    PRIMARY KEY,
  token   INTEGER NOT NULL DEFAULT 0,      -- the latest; never goes back
  permits INTEGER,                         -- of a semaphore in use
  place   INTEGER                          -- the latest in a line
) WITHOUT ROWID;

-- Word for clients of other processes, kept for a few seconds. AUTOINCREMENT, so that no id comes twice.
CREATE TABLE lock_messages (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL,
  client  TEXT    NOT NULL,
  message TEXT    NOT NULL
);
