-- The newest token that was seen for a resource.
--   ?1 resource
SELECT token FROM task_fences WHERE resource = ?1
