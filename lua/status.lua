-- status: tells who holds a lock and who waits for it. Changes nothing.
--
-- KEYS as in include/line.lua
-- ARGV[1] detail  1: with the shared holders and the waiters, 0: only how many
--
-- Reply: {value, its pttl, the counter or '0', s, µs, number of shared holders, of waiters,
--         [owner, record, end of grant in ms, ...], [waiter as in the book, ...]}, or nil if free;
-- s and µs are the server's time
local lock, fence, line, book, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local value = redis.call('GET', lock)
if not value then
  return nil
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local shared, waiting = {}, {}
if ARGV[1] == '1' then
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', holders, now, '+inf')) do
    local record = redis.call('HGET', book, 'h:' .. owner)
    if record then
      shared[#shared + 1] = owner
      shared[#shared + 1] = record
      shared[#shared + 1] = redis.call('ZSCORE', holders, owner)
    end
  end
  for _, owner in ipairs(redis.call('ZRANGE', line, 0, -1)) do
    waiting[#waiting + 1] = redis.call('HGET', book, 'w:' .. owner) or nil
  end
end
return {value, redis.call('PTTL', lock), redis.call('GET', fence) or '0', clock[1], clock[2],
        redis.call('ZCOUNT', holders, now, '+inf'), redis.call('ZCARD', line), shared, waiting}
