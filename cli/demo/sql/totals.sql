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
