-- Ready tasks whose payloads have exactly so many bytes.
--   schema, rows, bytes
INSERT INTO :"schema".tasks (type, payload)
SELECT 'bench0', to_json(repeat('x', :bytes - 2)) FROM generate_series(1, :rows);
