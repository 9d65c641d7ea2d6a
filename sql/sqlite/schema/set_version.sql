-- set_version: ?1 kind, ?2 version, ?3 boot id
INSERT INTO leasehold_schema (kind, version, boot_id) VALUES (?1, ?2, ?3)
ON CONFLICT (kind) DO UPDATE SET version = excluded.version, boot_id = excluded.boot_id
