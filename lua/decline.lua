-- decline: gives back an offer that nobody waits for any more, and offers the lock to the next in line. A
-- grant that was confirmed stays. Repeating it is safe.
--
-- KEYS as in include/line.lua
-- ARGV[1] owner  32 hex digits
--
-- Reply: evicted
--#include line.lua
local owner = ARGV[1]

local held = redis.call('GET', lock)
if held and owner_of(held) == owner and state_of(held) == '?' then
  take_back(held)
elseif string.sub(redis.call('HGET', book, 'h:' .. owner) or '', 1, 1) == '?' then
  redis.call('ZREM', holders, owner)
  redis.call('HDEL', book, 'h:' .. owner)
end
advance(settle())
tidy()
return evicted
