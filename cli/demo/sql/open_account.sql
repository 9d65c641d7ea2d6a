-- $1 account
INSERT INTO demo_accounts VALUES ($1, 0)
