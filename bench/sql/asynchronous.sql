-- From the next connection on, commits do not wait for the disk.
--   database
ALTER DATABASE :"database" SET synchronous_commit = off;
