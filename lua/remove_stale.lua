-- remove_stale: removes the record of a holder that expired, if it is still the same.
--
-- KEYS[1] lock
-- ARGV[1] owner   32 hex digits, of the record that was seen
-- ARGV[2] linger  ms that the record lingers after the grant, as it says itself
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
  return 0  -- renewed since then
end
return redis.call('DEL', lock)
