-- release: gives back an exclusive lock of the caller that nobody waits for. It is lean and tried
-- first; hand_over does the rest.
--
-- KEYS[1] lock, KEYS[2] line: see include/line.lua
-- ARGV[1] held  how the lock's value begins if it is the caller's: its owner, '='
--
-- Reply: 1; nil if that does not apply, and nothing was done
local lock, line = KEYS[1], KEYS[2]
local held = ARGV[1]

if redis.call('GETRANGE', lock, '0', '32') ~= held or redis.call('EXISTS', line) == 1 then
  return nil
end
redis.call('DEL', lock)
return 1
