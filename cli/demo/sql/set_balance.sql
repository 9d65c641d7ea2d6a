-- $1 account, $2 balance. Blindly: only the lock keeps others from having changed it meanwhile.
UPDATE demo_accounts SET balance = $2 WHERE id = $1
