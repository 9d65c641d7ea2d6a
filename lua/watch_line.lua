-- watch_line: called now and then by a client that waits for a lock, for all its waiters; once a second if
-- others wait there too, which shows that it is alive. Keeps the line moving if a holder has expired or a
-- waiter hangs, and tells whether the client's own waiters still stand in it.
--
-- KEYS as in include/line.lua
-- ARGV[1] owner   the waiter of the client that asked longest ago
-- ARGV[2] client  the client
--
-- Reply: {found, look_in, evicted, clients}
--   found    waiting: that waiter still stands in line; offered: it was offered the lock and has to ask again;
--            missing: all waiters of the client have to ask again
--   look_in  ms until the present grant or offer ends, or the head of the line no longer keeps out the
--            others; -1 if never
--   clients  how many clients wait
--#include line.lua
local owner, client = ARGV[1], ARGV[2]

even_if_full()
local was_seen = redis.call('ZSCORE', seen, client)
if show(client) > 1 then
  local dead = redis.call('ZRANGEBYSCORE', seen, '-inf', now - time_to_show, 'LIMIT', 0, most_at_once)
  if dead[1] then
    redis.call('ZREM', seen, unpack(dead))
  end
end
advance(settle())
keep_line()

local current = redis.call('GET', lock)
local found = 'missing'
if was_seen and redis.call('ZSCORE', line, owner) then
  found = 'waiting'
elseif redis.call('ZSCORE', holders, owner) or current and owner_of(current) == owner then
  found = 'offered'
end
local left = -1
if current and owner_of(current) == nobody then
  local first = redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')
  left = first[2] and math.max(0, first[2] - now) or -1
elseif current then
  local pttl = redis.call('PTTL', lock)
  left = pttl < 0 and -1 or math.max(0, pttl - (field(current, 'linger') or 0))
end
if head_ends and redis.call('ZCARD', line) > 1 then
  left = left < 0 and head_ends or math.min(left, head_ends)
end
local clients = redis.call('ZCARD', seen)
tidy()
return {found, left, evicted, clients}
