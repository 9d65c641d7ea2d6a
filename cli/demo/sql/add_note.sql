-- $1 task
INSERT INTO demo_effects (task) VALUES ($1)
