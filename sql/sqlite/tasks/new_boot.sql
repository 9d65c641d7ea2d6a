-- The machine was started again since: all leases have ended, for their holders died with it.
UPDATE task_queue SET lease_deadline = 0 WHERE state = 'leased'
