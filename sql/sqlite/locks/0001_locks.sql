-- 1: locks. Times are ms since the machine was started (see lib/src/sqlite/database/machine_clock.hpp). The
-- tables are not a public interface.

-- Holders, offers and waiters. The row of a holder that has expired stays until `gone`, so that the next
-- holder learns of it.
CREATE TABLE lock_parties (
  name        TEXT    NOT NULL,
  -- held; granted: an offer, until it is confirmed; waiting. In alphabetical order, so that state < 'waiting'
  -- finds those who have the lock. With OR, because for an IN list SQLite sets up a table in every INSERT and
  -- UPDATE.
  state       TEXT    NOT NULL CHECK (state = 'granted' OR state = 'held' OR state = 'waiting'),
  owner       TEXT    NOT NULL,            -- 32 hex digits, new for each grant
  kind        TEXT    NOT NULL,            -- x: exclusive; s: shared; p: one of so many permits
  client      TEXT    NOT NULL,            -- who gets the messages
  runner      TEXT    NOT NULL,
  incarnation TEXT    NOT NULL,
  about       TEXT    NOT NULL,            -- JSON: pid, host, platform
  metadata    TEXT    NOT NULL,            -- JSON or empty
  ttl         INTEGER NOT NULL,
  every       INTEGER NOT NULL,            -- ms between heartbeats, 0 if none are promised
  linger      INTEGER NOT NULL,            -- ms that the row stays after the grant has ended
  granted     INTEGER NOT NULL,            -- when; of a waiter: since when it waits
  ends        INTEGER NOT NULL,            -- when the grant, or the time to confirm an offer, ends; of a waiter: 0
  gone        INTEGER NOT NULL,
  renewals    INTEGER NOT NULL DEFAULT 0,
  token       INTEGER NOT NULL DEFAULT 0,  -- 0 until it holds the lock
  version     INTEGER NOT NULL DEFAULT 1,  -- grows with every change
  permits     INTEGER NOT NULL DEFAULT 0,  -- that the request brought along
  priority    INTEGER NOT NULL DEFAULT 0,
  place       INTEGER NOT NULL DEFAULT 0,
  score       REAL    NOT NULL DEFAULT 0,  -- the waiter with the lowest score is next
  PRIMARY KEY (name, state, owner)
) WITHOUT ROWID;

-- Partial, so that a lock that nobody waits for costs nothing here.
CREATE INDEX lock_line ON lock_parties (name, score, owner) WHERE state = 'waiting';

-- The clients that wait in a line, and when each was last seen.
CREATE TABLE lock_clients (
  name   TEXT    NOT NULL,
  client TEXT    NOT NULL,
  seen   INTEGER NOT NULL,
  PRIMARY KEY (name, client)
) WITHOUT ROWID;

-- What is remembered about a name.
CREATE TABLE lock_tokens (
  name    TEXT    PRIMARY KEY,
  token   INTEGER NOT NULL DEFAULT 0,      -- the latest; never goes back
  permits INTEGER,                         -- of a semaphore in use
  place   INTEGER                          -- the latest in a line
) WITHOUT ROWID;

-- Messages to clients of other processes, kept for a few seconds. AUTOINCREMENT, so that no id is used twice.
CREATE TABLE lock_messages (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL,
  client  TEXT    NOT NULL,
  message TEXT    NOT NULL
);
