-- force_release: takes a lock away from its holders, tells them, and offers the lock to the next in
-- line.
--
-- KEYS as in include/line.lua
-- ARGV[1] until  server ms after which the caller has given up
--
-- Reply: 'late' if it has, and nothing was done; {value, its pttl, the counter or '0', s, µs, number of shared holders, waiters}, or nil if
-- nobody held it
--#include line.lua
if now > tonumber(ARGV[1]) then
  return 'late'
end
local holder, value, pttl = settle()
if not holder then
  advance(nil)
  tidy()
  return nil
end
local token = redis.call('GET', fence) or '0'
local shared = redis.call('ZRANGE', holders, 0, -1)
for _, owner in ipairs(shared) do
  dismiss(owner, redis.call('HGET', book, 'h:' .. owner), 'vanished')
end
if holder ~= 'shared' then
  dismiss(owner_of(value), string.sub(value, 33), 'vanished')
end
redis.call('DEL', lock, holders)
advance(nil)
tidy()
return {value, pttl or -2, token, clock[1], clock[2], #shared, redis.call('ZCARD', line)}
