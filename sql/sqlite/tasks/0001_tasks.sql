-- Tasks and fences in a SQLite file, with the columns and states of sql/migrations/0001_tasks.sql.
--
-- Times are µs since 1970 by the machine's wall clock. They are shown to people, and decide what is due and
-- what finished long ago. Only lease_deadline decides whether a lease has expired: ms since the machine was
-- started (machine_clock.hpp), by a clock that never jumps and is the same in all processes.
-- The tables are not a public interface.

CREATE TABLE task_queue (
  -- AUTOINCREMENT: ids are never reused. Its counter, sqlite_sequence, also tells other processes of new
  -- tasks (added).
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  version        INTEGER NOT NULL DEFAULT 0,   -- grows by 1 with every change of state
  lease_id       INTEGER NOT NULL DEFAULT 0,   -- of the last lease, also after it has ended
  run_at         INTEGER NOT NULL,
  leased_at      INTEGER,                      -- when its last lease began, also after that has ended
  lease_deadline INTEGER,
  lease_expiry   INTEGER,                      -- the same by the wall clock, to be shown
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  finished_at    INTEGER,
  priority       INTEGER NOT NULL DEFAULT 0,   -- higher goes first
  attempts       INTEGER NOT NULL DEFAULT 0,
  max_attempts   INTEGER NOT NULL DEFAULT 10,
  crash_count    INTEGER NOT NULL DEFAULT 0,   -- since an attempt last ended in order
  started        INTEGER NOT NULL DEFAULT 0,   -- whether it counts as a crash if the lease expires
  suspect        INTEGER NOT NULL DEFAULT 0,   -- a lease has expired since an attempt last ended in order
  type           TEXT    NOT NULL,
  state          TEXT    NOT NULL DEFAULT 'pending',
  leased_by      TEXT,
  unique_key     TEXT,
  last_error     TEXT,
  -- Last, because they can be large: what stands before them is read without them.
  payload        TEXT    NOT NULL,
  progress       TEXT,
  result         TEXT,

  -- One CASE: it is evaluated for every row that a lease or a renewal changes.
  CHECK (CASE state WHEN 'pending'   THEN lease_deadline IS NULL AND finished_at IS NULL
                    WHEN 'leased'    THEN lease_deadline IS NOT NULL AND finished_at IS NULL
                    WHEN 'completed' THEN lease_deadline IS NULL AND finished_at IS NOT NULL
                    WHEN 'dead'      THEN lease_deadline IS NULL AND finished_at IS NOT NULL
                    WHEN 'cancelled' THEN lease_deadline IS NULL AND finished_at IS NOT NULL
                    ELSE false END)
);

-- In exactly the order of due. Every index ends with the id.
CREATE INDEX task_ready ON task_queue (type, priority DESC, run_at)
  WHERE state = 'pending';

-- By deadline, so that recovery, which mostly finds nothing, costs one look-up. A renewal moves one entry.
CREATE INDEX task_leased ON task_queue (lease_deadline)
  WHERE state = 'leased';

-- At most one pending or leased task has a key.
CREATE UNIQUE INDEX task_unique_key ON task_queue (unique_key)
  WHERE unique_key IS NOT NULL AND state IN ('pending', 'leased');

-- For retention, counts, and lists of finished tasks.
CREATE INDEX task_finished ON task_queue (state, type, finished_at)
  WHERE finished_at IS NOT NULL;

-- One row: how many expired leases were taken back, by whichever process. Their tasks were pending again, or dead.
CREATE TABLE task_recovered (
  requeued INTEGER NOT NULL,
  dead     INTEGER NOT NULL
);
INSERT INTO task_recovered VALUES (0, 0);

-- The newest token that was seen for each resource.
CREATE TABLE task_fences (
  resource TEXT    PRIMARY KEY,
  token    INTEGER NOT NULL,
  seen_at  INTEGER NOT NULL
) WITHOUT ROWID;
