-- version: what is known of one kind. ?1 kind
SELECT version, boot_id FROM leasehold_schema WHERE kind = ?1
