-- ?1 name
SELECT token FROM locks WHERE name = ?1
