-- Included by the scripts that touch the waiting line. What they share:
--
-- KEYS[1] lock     string: owner (32 hex digits), state, then the holder's record as JSON. The key
--                  outlives the grant by record.linger ms. State '=': held. '?': an offer to a
--                  waiter that has not confirmed it yet. If a holder expired before the offer, a
--                  second line says when its key would have gone, server ms, and what it held.
--                  An owner of zeros: held by `holders`, whose token is in the record.
-- KEYS[2] fence    counter: the token of the latest exclusive grant; expires
-- KEYS[3] line     sorted set: owners of waiters; the lowest score is next
-- KEYS[4] book     hash: w:<owner> a waiter, h:<owner> a shared holder (state, record, and second
--                  line as in `lock`), #seq the latest place in the line, #limit the number of
--                  permits
-- KEYS[5] holders  sorted set: owners of shared holders by the end of their grant, server ms
-- KEYS[6] seen     sorted set: the clients that wait in line, by when they were last seen, server ms
--
-- One rule keeps the dead from holding up the line. A client that waits shows itself once a second.
-- When its turn comes, a waiter is passed over if its client was not seen for `time_to_show` ms, and
-- an offer ends when that time does. A client that is alone in the line need not show itself; the
-- second one to come asks it to. One that does not listen when the lock is offered to it has ended: it
-- counts as not seen.
local lock, fence, line, book, holders, seen = unpack(KEYS)

-- The first two are those of lib/src/locks/line_rules.hpp, which explains them. Times are in ms.
local time_to_show = 2000
local overtake = 8.001
local most_at_once = 25      -- waiters, holders or clients that one call removes; the next goes on
local idle_time = 600000     -- after this the keys of an abandoned line expire
local nobody = string.rep('0', 32)
local evicted = 0            -- number of waiters that this call has passed over
local head_ends              -- ms until a writer no longer keeps out those behind it, if one does

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function owner_of(value) return string.sub(value, 1, 32) end
local function state_of(value) return string.sub(value, 33, 33) end
local function field(value, name) return tonumber(string.match(value, '"' .. name .. '":(%d+)')) end
local function client_of(value) return string.match(value, '"client":"(%x+)"') end

-- A server that is full refuses every command that may need memory, unless the script has written
-- something before. What keeps or hands over a grant starts with a write that changes nothing.
local function even_if_full()
  redis.call('HDEL', book, '')
end

-- A client that waits for replicas waits for what its own connection wrote last. What was granted over
-- another connection must be written again for that; this changes nothing.
local function write_again()
  local pttl = redis.call('PTTL', lock)
  if pttl > 0 then
    redis.call('PEXPIRE', lock, pttl)
  end
end

-- A missing counter starts from the clock in µs. It grows by one with each grant, the clock by a
-- million a second: so it never goes back, even if it expired or all data was lost. `least` is when the
-- caller's connection was made, in µs of this server: a smaller counter is older than this server's time
-- as the primary, and so perhaps behind the tokens that the one before it gave out. It starts anew, too.
-- The `value` of the lock says how long the counter is kept.
local function seed_token(value, least)
  local token = math.max(clock[1] * 1000000 + clock[2], least)
  redis.call('SET', fence, string.format('%.0f', token), 'PX', field(value, 'keep'))
  return token
end

local function next_token(value, least)
  local token = redis.call('INCR', fence)
  return (token == 1 or token < least) and seed_token(value, least) or token
end

-- Makes keys live at least this long from now.
local function live(ms, ...)
  for _, key in ipairs({...}) do
    local left = redis.call('PTTL', key)
    if left >= -1 and left < ms then
      redis.call('PEXPIRE', key, ms)
    end
  end
end

-- Sends a message about this lock: a word, an owner and the lock's name, as in
-- lib/src/locks/lock_message.hpp. False if nobody listens.
local function tell(client, word, owner)
  local message = word .. ' ' .. owner .. ' ' .. string.sub(lock, 5, -2)
  return redis.call('PUBLISH', 'lh:client:' .. client, message) > 0
end

-- Removes a holder and tells it `what` has happened; `held` is its state and record. A waiter that
-- only had an offer has lost nothing: it is told to ask again.
local function dismiss(owner, held, what)
  redis.call('HDEL', book, 'h:' .. owner)
  local client = held and client_of(held)
  if client then
    tell(client, string.sub(held, 1, 1) == '?' and 'granted' or what, owner)
  end
end

-- A waiter as the book has it.
local function pack_waiter(w)
  return table.concat({w.client, w.kind, w.limit, w.priority, w.since, w.place, w.value}, ' ')
end

local function unpack_waiter(text)
  local client, kind, limit, priority, since, place, value =
    string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  return {client = client, kind = kind, limit = tonumber(limit), priority = tonumber(priority),
          since = tonumber(since), place = tonumber(place), value = value}
end

local function forget_waiter(owner)
  redis.call('ZREM', line, owner)
  redis.call('HDEL', book, 'w:' .. owner)
end

-- Keeps the keys of a line alive. Called often, so it seldom writes.
local function keep_line()
  if redis.call('PTTL', line) < idle_time / 2 then
    live(idle_time, line, book, seen)
  end
end

-- Notes that a client which waits is alive. Returns how many clients wait.
local function show(client)
  local is_new = redis.call('ZADD', seen, now, client) == 1
  local number = redis.call('ZCARD', seen)
  if is_new and number == 2 then  -- the other one was alone: its time starts now
    for _, other in ipairs(redis.call('ZRANGE', seen, 0, 1)) do
      if other ~= client then
        redis.call('ZADD', seen, now, other)
        tell(other, 'crowded', nobody)
      end
    end
  end
  return number
end

-- For how many ms a client that waits still counts as alive.
local function life_of(client)
  local at = redis.call('ZSCORE', seen, client)
  if not at then
    return 0
  end
  return redis.call('ZCARD', seen) == 1 and time_to_show or at + time_to_show - now
end

-- What a holder that expired before this offer left behind: its value, and the pttl of its key.
local function left_behind_in(offer)
  local gone_at, value = string.match(offer, '^[^\n]*\n(%d+) (.*)$')
  return value, value and math.max(1, gone_at - now)
end

-- Takes back an offer: everything is as it was before.
local function take_back(offer)
  local value, pttl = left_behind_in(offer)
  if value then
    even_if_full()
    redis.call('SET', lock, value, 'PX', pttl)
    return 'stale', value, pttl
  end
  redis.call('DEL', lock)
  return nil
end

-- An offer was not confirmed in time: its client does not count as alive any more.
local function offer_lapsed(offer)
  evicted = evicted + 1
  redis.call('ZREM', seen, client_of(offer) or '')
end

-- Removes what has lapsed and returns what holds the lock now:
--   nil            nothing
--   'exclusive'    a living grant or offer, with its value and pttl
--   'stale'        a grant that expired without a release, with its value and pttl
--   'shared'       living shared holders
local function settle()
  local value = redis.call('GET', lock)
  if not value then
    return nil
  end
  if owner_of(value) == nobody then
    local last_offer = ''
    local lapsed = redis.call('ZRANGEBYSCORE', holders, '-inf', now, 'LIMIT', 0, most_at_once)
    for _, owner in ipairs(lapsed) do
      local record = redis.call('HGET', book, 'h:' .. owner)
      redis.call('ZREM', holders, owner)
      redis.call('HDEL', book, 'h:' .. owner)
      if record and string.sub(record, 1, 1) == '?' then
        offer_lapsed(record)
        last_offer = left_behind_in(record) and record or last_offer
      end
    end
    if redis.call('ZCARD', holders) > 0 then
      return 'shared', value
    end
    return take_back(last_offer)
  end
  local pttl = redis.call('PTTL', lock)
  local linger = field(value, 'linger')
  if not linger or pttl < 0 or pttl > linger then
    return 'exclusive', value, pttl
  end
  if state_of(value) == '?' then
    offer_lapsed(value)
    return take_back(value)
  end
  return 'stale', value, pttl
end

local function limit_of(w)
  return w.kind == 's' and math.huge or tonumber(redis.call('HGET', book, '#limit') or w.limit)
end

-- Makes `owner` one of the shared holders for `ttl` ms; `held` is its state, record and second line.
-- `token` is that of a grant, nil for an offer: the marker has it as soon as one of them does. The
-- counter lives as long as they do, because a later shared holder must not outrank them.
local function add_holder(owner, held, ttl, token)
  local linger = field(held, 'linger') or 0
  redis.call('ZADD', holders, now + ttl, owner)
  redis.call('HSET', book, 'h:' .. owner, held)
  local marker = redis.call('GET', lock)
  local is_shared = marker and owner_of(marker) == nobody
  if not is_shared or (token and not field(marker, 'token')) then
    local px = is_shared and math.max(redis.call('PTTL', lock), ttl + linger) or ttl + linger
    local its_token = token and string.format(',"token":%.0f', token) or ''
    redis.call('SET', lock, nobody .. '={"linger":' .. linger .. its_token .. '}', 'PX', px)
  end
  live(ttl + linger, lock, fence, book, holders)
end

-- The next waiters, at most so many: their owners, and what the book has of each.
local function head_of_line(most)
  local owners, fields = redis.call('ZRANGE', line, 0, most - 1), {}
  for i, owner in ipairs(owners) do
    fields[i] = 'w:' .. owner
  end
  return owners, owners[1] and redis.call('HMGET', book, unpack(fields))
end

-- Removes the first so many of these waiters.
local function leave_line(owners, number)
  local fields = {}
  for i = 1, number do
    fields[i] = 'w:' .. owners[i]
  end
  if number > 0 then
    redis.call('ZREM', line, unpack(owners, 1, number))
    redis.call('HDEL', book, unpack(fields))
  end
end

-- Offers the lock to as many of the next waiters as there is room for, and tells each. Passes over
-- those whose client does not count as alive, a limited number: if the next one is dead too, the
-- offer to it ends at once, and the next call goes on. `holder`, `left_behind` and its pttl come from
-- settle(). Returns what holds the lock then.
local function advance(holder, left_behind, its_pttl)
  local second_line = ''
  if holder == 'stale' then
    second_line = string.format('\n%.0f ', now + its_pttl) .. left_behind
  end
  local passed = 0
  local owners, waiters, at = {}, {}, 0
  while holder ~= 'exclusive' do
    at = at + 1
    if not owners[at] then
      leave_line(owners, at - 1)
      owners, waiters = head_of_line(at == 1 and 1 or most_at_once)  -- mostly the first is enough
      at = 1
    end
    local owner = owners[at]
    if not owner then
      at = 0
      break
    end
    local w = waiters[at] and unpack_waiter(waiters[at])
    local life = w and life_of(w.client) or 0
    local goes = not w or (life <= 0 and passed < most_at_once)
    if holder == 'shared' and not goes and
       (w.kind == 'x' or redis.call('ZCARD', holders) >= limit_of(w)) then
      head_ends = w.kind == 'x' and math.max(0, life)  -- it waits until they have left
      at = at - 1
      break
    end
    -- One that is passed over is told too: if it only stood still, it comes back to its place.
    local heard = w and tell(w.client, 'granted', owner)
    if life > 0 and not heard then
      redis.call('ZREM', seen, w.client)
      life = 0
      goes = passed < most_at_once
    end
    if goes then
      passed = passed + 1
      evicted = evicted + 1
    else
      even_if_full()
      local offer = '?' .. string.sub(w.value, 34) .. second_line
      local ends = math.max(1, life)
      if w.kind == 'x' then
        redis.call('SET', lock, owner .. offer, 'PX', ends + (field(offer, 'linger') or 0))
        holder = 'exclusive'
      else
        add_holder(owner, offer, ends)
        holder = 'shared'
      end
      second_line = ''
      if life <= 0 then
        break  -- enough for one call
      end
    end
  end
  leave_line(owners, at)
  return holder
end

-- Removes what nobody needs any more.
local function tidy()
  if redis.call('EXISTS', line, holders) == 0 then
    redis.call('DEL', book, seen)
  end
end
