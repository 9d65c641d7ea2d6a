-- watch_line: called once a second by a client that waits for a lock, for all its waiters. Keeps the
-- line moving if a holder has expired or a waiter hangs, and tells whether the client's own waiters
-- still stand in it.
--
-- KEYS as in include/line.lua
-- ARGV[1] owner  the waiter of the client that asked longest ago
--
-- Reply: {1 if that waiter still stands in line or was offered the lock, 0 if the waiters of the client
--         have to ask again; ms until the present grant or offer ends, or the head of the line must
--         have answered, -1 if never; evicted}
--#include line.lua
local owner = ARGV[1]

calling = owner
advance(settle())
keep_line()
tidy()

local current = redis.call('GET', lock)
local present = (redis.call('ZSCORE', line, owner) or redis.call('ZSCORE', holders, owner) or
                 current and owner_of(current) == owner) and 1 or 0
local left = -1
if current and owner_of(current) == nobody then
  local first = redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')
  left = first[2] and math.max(0, first[2] - now) or -1
elseif current then
  local pttl = redis.call('PTTL', lock)
  left = pttl < 0 and -1 or math.max(0, pttl - (field(current, 'linger') or 0))
end
if answer_due then
  left = left < 0 and answer_due or math.min(left, answer_due)
end
return {present, left, evicted}
