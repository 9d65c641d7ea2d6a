-- ?1 worker   ?2 expiry   ?3 so many
UPDATE tasks SET leased_by = ?1, lease_expiry = ?2, version = version + 1
WHERE id IN (SELECT id FROM tasks WHERE leased_by IS NULL ORDER BY id LIMIT ?3)
RETURNING id, version, payload
