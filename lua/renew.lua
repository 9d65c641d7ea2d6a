-- renew: prolongs a grant that is still the caller's. Never brings back a key that is gone. Repeating
-- it is safe.
--
-- KEYS[1] lock
-- ARGV[1] value  the owner (32 hex digits), '=', and its record, counted up by one heartbeat
-- ARGV[2] px     ms the key lives from now
--
-- Reply: 1 renewed, 0 the key is gone, -1 somebody else holds it
local lock = KEYS[1]
local value, px = ARGV[1], ARGV[2]

local current = redis.call('GET', lock)
if not current then
  return 0
end
if string.sub(current, 1, 33) ~= string.sub(value, 1, 33) then
  return -1
end
redis.call('SET', lock, value, 'PX', px)
return 1
