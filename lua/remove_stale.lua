-- remove_stale: removes the record of a holder that vanished, if it is still that one.
--
-- KEYS[1] lock
-- ARGV[1] owner   32 hex digits, of the record that was seen
-- ARGV[2] linger  ms that records linger after the lease, as that record says
--
-- Reply: 1 removed, 0 not
local lock = KEYS[1]
local owner, linger = ARGV[1], tonumber(ARGV[2])

local current = redis.call('GET', lock)
if not current or string.sub(current, 1, 32) ~= owner then
  return 0
end
local pttl = redis.call('PTTL', lock)
if pttl < 0 or pttl > linger then
  return 0 -- renewed meanwhile
end
return redis.call('DEL', lock)
