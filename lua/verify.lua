-- verify: whether a holder still has its lock, alone or beside others. Changes nothing.
--
-- KEYS[1] lock, KEYS[2] holders: see include/line.lua
-- ARGV[1] owner  32 hex digits
--
-- Reply: 1 it has, 0 the key is gone, -1 somebody else has it
local lock, holders = KEYS[1], KEYS[2]
local owner = ARGV[1]

local held = redis.call('GET', lock)
if not held then
  return 0
end
local present = string.sub(held, 1, 32)
if present == owner then
  return 1
end
local shared = present == string.rep('0', 32)
return shared and redis.call('ZSCORE', holders, owner) and 1 or -1
