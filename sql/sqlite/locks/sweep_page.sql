-- sweep_page: the last of the next names to look at, or NULL. ?1 the last of those before, ?2 how many
SELECT max(name) FROM (SELECT name FROM lock_tokens WHERE name > ?1 ORDER BY name LIMIT ?2)
