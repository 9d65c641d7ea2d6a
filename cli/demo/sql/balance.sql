-- $1 account
SELECT balance FROM demo_accounts WHERE id = $1
