-- watch_line: what a process that waits for a lock does once a second, for all its waiters: sees
-- that neither a holder that vanished nor a waiter that froze keeps the line from moving, and that
-- its own waiters still stand in it.
--
-- KEYS as in include/line.lua
-- ARGV[1] owner  one waiter of the process: the one that looked longest ago
--
-- Reply: {1 if that waiter still stands in line or was granted the lock, 0 if the waiters of the
--         process have to look, ms until the present lease or claim ends or the head of the line has
--         to have answered, -1 if never, evicted}
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
