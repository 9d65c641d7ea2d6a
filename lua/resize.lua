-- resize: changes the number of permits of a semaphore that is in use, and lets in waiters that fit
-- now. The number of an unused semaphore is not stored: the next acquire brings its own.
--
-- KEYS as in include/line.lua
-- ARGV[1] limit  number of permits
--
-- Reply: 1
--#include line.lua
local limit = ARGV[1]

local holder, value, pttl = settle()
if holder == 'shared' or redis.call('EXISTS', line) == 1 then
  redis.call('HSET', book, '#limit', limit)
  advance(holder, value, pttl)
end
tidy()
return 1
