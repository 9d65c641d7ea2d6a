-- $1 task, $2 account, $3 fencing token
INSERT INTO demo_effects (task, account, token) VALUES ($1, $2, $3)
