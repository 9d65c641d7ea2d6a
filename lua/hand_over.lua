-- hand_over: gives back what the caller has, a grant, an offer or a place in the line, and offers the lock
-- to the next in line. Repeating it is safe.
--
-- KEYS as in include/line.lua
-- ARGV[1] owner  32 hex digits
--
-- Reply: 1 released, 0 nobody holds it, -1 somebody else does; {that, evicted} if there is a line
local holds_it = redis.call('GETRANGE', KEYS[1], '0', '32') == ARGV[1] .. '='
if holds_it and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
--#include line.lua
local owner = ARGV[1]

if holds_it then  -- so it has neither a place in the line nor an offer
  local next_holder = advance(nil)
  if not next_holder then
    redis.call('DEL', lock)
  end
  if next_holder ~= 'exclusive' then
    tidy()
  end
  return {1, evicted}
end

local held = redis.call('GET', lock)
local answer = 0
if held and owner_of(held) == owner then
  take_back(held)
  answer = 1
elseif redis.call('ZREM', holders, owner) == 1 then
  redis.call('HDEL', book, 'h:' .. owner)
  answer = 1
elseif held then
  answer = -1
end
forget_waiter(owner)
advance(settle())
tidy()
return {answer, evicted}
