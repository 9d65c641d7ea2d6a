-- renew_shared: prolongs the grant of a shared holder that is still there. Never brings back one that
-- has ended. Repeating it is safe.
--
-- KEYS as in include/line.lua
-- ARGV[1] value  the owner (32 hex digits), '=', and its record, counted up by one heartbeat
-- ARGV[2] ttl    ms of the grant from now
--
-- Reply: 1 renewed, 0 it is not among the holders any more, -1 somebody else holds the lock
--#include line.lua
local value, ttl = ARGV[1], tonumber(ARGV[2])
local owner = owner_of(value)

even_if_full()  -- and not on a replica, which may lag
local ends = redis.call('ZSCORE', holders, owner)
if not ends or tonumber(ends) <= now then
  return 0
end
-- If the lock's key was deleted from outside, a new holder must not be overwritten.
local current = redis.call('GET', lock)
if not current or owner_of(current) ~= nobody then
  redis.call('ZREM', holders, owner)
  redis.call('HDEL', book, 'h:' .. owner)
  return current and -1 or 0
end
add_holder(owner, string.sub(value, 33), ttl, field(value, 'token'))
return 1
