-- remove_stale: removes the record of a holder that expired, if it is still the same, and offers the lock
-- to the next in line.
--
-- KEYS as in include/line.lua
-- ARGV[1] owner  32 hex digits, of the record that was seen
--
-- Reply: 1 removed, 0 not
--#include line.lua
local holder, current = settle()
if holder ~= 'stale' or owner_of(current) ~= ARGV[1] then
  return 0
end
redis.call('DEL', lock)
advance(nil)
tidy()
return 1
