-- The statements of the demo's tasks, for PostgreSQL and SQLite alike.

-- name: open_account
-- $1 account
INSERT INTO demo_accounts VALUES ($1, 0)

-- name: balance
-- $1 account
SELECT balance FROM demo_accounts WHERE id = $1

-- name: set_balance
-- $1 account, $2 balance. Without a check: only the lock keeps others from changing the balance.
UPDATE demo_accounts SET balance = $2 WHERE id = $1

-- name: add_booking
-- $1 task, $2 account, $3 fencing token
INSERT INTO demo_effects (task, account, token) VALUES ($1, $2, $3)

-- name: add_note
-- $1 task
INSERT INTO demo_effects (task) VALUES ($1)

-- name: totals
-- Effects, tasks that have one, bookings among the effects, the sum of all balances, and how often the
-- token of a booking was not larger than the one before it on the same account.
SELECT (SELECT count(*) FROM demo_effects),
       (SELECT count(DISTINCT task) FROM demo_effects),
       (SELECT count(account) FROM demo_effects),
       (SELECT CAST(sum(balance) AS bigint) FROM demo_accounts),
       (SELECT count(*)
        FROM (SELECT token, lag(token) OVER (PARTITION BY account ORDER BY seq) AS before
              FROM demo_effects WHERE account IS NOT NULL) AS pairs
        WHERE token <= before)
