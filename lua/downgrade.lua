-- downgrade: turns an exclusive grant into a shared one, without a gap. Never brings back one that has
-- ended. Repeating it is safe.
--
-- KEYS as in include/line.lua
-- ARGV[1] value  the owner (32 hex digits), '=', and its record, with the token
-- ARGV[2] ttl    ms of the grant from now
--
-- Reply: 1 done, 0 it has ended, -1 somebody else holds it
--#include line.lua
local value, ttl = ARGV[1], tonumber(ARGV[2])
local owner = owner_of(value)

even_if_full()  -- and not on a replica, which may lag
local holder, current = settle()
if not holder then
  advance(nil)
  tidy()
  return 0
end
if holder == 'shared' then
  if not redis.call('ZSCORE', holders, owner) then
    return -1
  end
  write_again()
  return 1
end
if owner_of(current) ~= owner then
  return -1
end
if holder == 'stale' then
  return 0
end
-- Readers beside it get its token, even if the counter has expired.
redis.call('SET', fence, string.format('%.0f', field(value, 'token')), 'NX', 'PX', ttl)
add_holder(owner, string.sub(value, 33), ttl, field(value, 'token'))
advance('shared')
return 1
