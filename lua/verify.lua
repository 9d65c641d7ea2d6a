-- verify: tells whether a holder still has its lock, exclusively or shared. If the lock's key was
-- deleted from outside, also removes what is left of a shared holder, which must not count any more.
--
-- KEYS[1] lock, KEYS[2] holders, KEYS[3] book: see include/line.lua
-- ARGV[1] owner  32 hex digits
--
-- Reply: 1 it has, 0 the key is gone, -1 somebody else has it
local lock, holders, book = KEYS[1], KEYS[2], KEYS[3]
local owner = ARGV[1]

local held = redis.call('GET', lock)
local present = held and string.sub(held, 1, 32)
if present == owner then
  return 1
end
if present == string.rep('0', 32) and redis.call('ZSCORE', holders, owner) then
  return 1
end
-- A replica may lag and must not end a grant that its primary has: it refuses to write.
redis.call('ZREM', holders, owner)
redis.call('HDEL', book, 'h:' .. owner)
return held and -1 or 0
