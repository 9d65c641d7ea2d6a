-- renew: prolongs a grant that is still the caller's. Never brings back one that has ended. Repeating
-- it is safe.
--
-- KEYS[1] lock
-- ARGV[1] value   the owner (32 hex digits), '=', and its record, counted up by one heartbeat
-- ARGV[2] ttl     ms of the grant from now
-- ARGV[3] linger  ms that the record lingers after the grant
--
-- Reply: 1 renewed, 0 it has ended, -1 somebody else holds the lock
local lock = KEYS[1]
local value, ttl, linger = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- A replica may lag and must not end a grant that its primary has. HDEL is a write, so a replica refuses
-- it. On a primary it changes nothing, because the key is missing or no hash.
local function not_renewed(answer)
  local refused = redis.pcall('HDEL', lock, '')
  if type(refused) == 'table' and string.find(refused.err, 'READONLY', 1, true) then
    return refused
  end
  return answer
end

local current = redis.call('GETRANGE', lock, '0', '32')
if current == '' then
  return not_renewed(0)
end
if current ~= string.sub(value, 1, 33) then
  return not_renewed(-1)
end
local pttl = redis.call('PTTL', lock)
if pttl >= 0 and pttl <= linger then
  return not_renewed(0)
end
-- A server that is full refuses the new record. What counts is the time, which it lets us set.
if redis.pcall('SET', lock, value, 'PX', ttl + linger).err then
  redis.call('PEXPIRE', lock, ttl + linger)
end
return 1
