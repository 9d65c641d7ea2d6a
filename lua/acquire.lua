-- acquire: takes a lock that nobody has. It is lean and tried first; contend does the rest.
--
-- A lock with waiters is never free: whoever gives it back offers it to the next.
--
-- KEYS[1] lock, KEYS[2] fence: see include/line.lua
-- ARGV[1] value  what to write into the lock; its record says how many ms a new counter is kept
-- ARGV[2] px     ms the key lives: the ttl, and then the time that its record lingers
-- ARGV[3] least  the token is not smaller; see seed_token in include/line.lua
--
-- Reply: the token, or nil if the key exists
local lock, fence = KEYS[1], KEYS[2]
local value, px, least = ARGV[1], ARGV[2], tonumber(ARGV[3])

if not redis.call('SET', lock, value, 'NX', 'PX', px) then
  return nil
end
local token = redis.call('INCR', fence)
if token == 1 or token < least then
  local clock = redis.call('TIME')
  token = math.max(clock[1] * 1000000 + clock[2], least)
  local keep = string.match(value, '"keep":(%d+)')
  redis.call('SET', fence, string.format('%.0f', token), 'PX', keep)
end
return token
