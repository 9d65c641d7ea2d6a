-- release: gives back a lock that is the caller's alone and that nobody waits for. The lean way, tried
-- first; leave is the other.
--
-- KEYS[1] lock, KEYS[2] line: see include/line.lua
-- ARGV[1] held  how the lock's value begins if it is the caller's: its owner, '='
--
-- Reply: 1, or nil if it is not so, and nothing was done
local lock, line = KEYS[1], KEYS[2]
local held = ARGV[1]

if redis.call('GETRANGE', lock, '0', '32') ~= held or redis.call('EXISTS', line) == 1 then
  return nil
end
redis.call('DEL', lock)
return 1
