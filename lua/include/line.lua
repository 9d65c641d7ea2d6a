-- Included by the scripts that touch the waiting line. What they share:
--
-- KEYS[1] lock     string: owner (32 hex digits), state, then the holder's record as JSON. The key
--                  outlives the grant by record.linger ms. State '=': held. '?': an offer to a
--                  waiter that has not confirmed it yet. An owner of zeros: held by `holders`.
-- KEYS[2] fence    counter: the token of the latest exclusive grant; expires
-- KEYS[3] line     sorted set: owners of waiters; the lowest score is next
-- KEYS[4] book     hash: w:<owner> a waiter, h:<owner> state and record of a shared holder,
--                  p:<owner> for a waiter that has an offer: when the key of the holder that
--                  expired before it would have gone, server ms, and the value of that key,
--                  a:<owner> how often this waiter was asked for a sign of life since its last
--                  one, and when, server ms,
--                  #seq the latest place in the line, #limit the number of permits
-- KEYS[5] holders  sorted set: owners of shared holders by the end of their grant, server ms
local lock, fence, line, book, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- The first four are those of lib/src/locks/line_rules.hpp, which explains them. Times are in ms.
local time_to_confirm = 1000
local time_to_answer = 400
local most_questions = 2
local overtake = 8.001
local idle_time = 600000     -- after this the keys of an abandoned line expire
local nobody = string.rep('0', 32)
local evicted = 0            -- number of waiters that this call has evicted
local calling                -- owner of the waiter that makes this call, if that is a sign of life
local answer_due             -- ms until the head of the line must have answered, if it was asked

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function owner_of(value) return string.sub(value, 1, 32) end
local function state_of(value) return string.sub(value, 33, 33) end
local function field(value, name) return tonumber(string.match(value, '"' .. name .. '":(%d+)')) end
local function client_of(value) return string.match(value, '"client":"(%x+)"') end

-- A missing counter starts from the clock in µs. It grows by one with each grant, the clock by a
-- million a second: so it never goes back, even if it expired or all data was lost. The `value` of the
-- lock says how long it is kept.
local function seed_token(value)
  local token = clock[1] * 1000000 + clock[2]
  redis.call('SET', fence, string.format('%.0f', token), 'PX', field(value, 'keep'))
  return token
end

local function next_token(value)
  local token = redis.call('INCR', fence)
  return token == 1 and seed_token(value) or token
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

-- Sends a message, a word and an owner as in lib/src/locks/lock_message.hpp. False if nobody listens.
local function tell(client, message)
  return redis.call('PUBLISH', 'lh:client:' .. client, message) > 0
end

-- Removes a holder and tells it `what` has happened; `held` is its state and record. A waiter that
-- only had an offer has lost nothing: it is told to ask again.
local function dismiss(owner, held, what)
  redis.call('HDEL', book, 'h:' .. owner, 'p:' .. owner)
  local client = held and client_of(held)
  if client then
    tell(client, (string.sub(held, 1, 1) == '?' and 'granted' or what) .. ' ' .. owner)
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

local function waiter_of(owner)
  local text = redis.call('HGET', book, 'w:' .. owner)
  return text and unpack_waiter(text)
end

local function forget_waiter(owner)
  redis.call('ZREM', line, owner)
  redis.call('HDEL', book, 'w:' .. owner, 'a:' .. owner)
end

-- Keeps the keys of a line alive. Called often, so it seldom writes.
local function keep_line()
  if redis.call('PTTL', line) < idle_time / 2 then
    live(idle_time, line, book)
  end
end

-- A client that does not listen, or did not confirm in time, has crashed or hangs. None of its waiters
-- may hold up the line. If it comes back to life, they return to their places by themselves.
local function evict_client(client)
  for _, owner in ipairs(redis.call('ZRANGE', line, 0, -1)) do
    local w = waiter_of(owner)
    if not w or w.client == client then
      forget_waiter(owner)
      evicted = evicted + 1
    end
  end
end

-- Keeps the record of a holder that expired with the offer that follows it, so that the waiter that
-- confirms in the end, this one or a later one, learns of the unclean end.
local function leave_to(owner, value, pttl)
  redis.call('HSET', book, 'p:' .. owner, string.format('%.0f ', now + pttl) .. value)
end

local function inherit(owner)
  local text = redis.call('HGET', book, 'p:' .. owner)
  if not text then
    return nil
  end
  redis.call('HDEL', book, 'p:' .. owner)
  local gone_at, value = string.match(text, '^(%d+) (.*)$')
  return value, math.max(1, gone_at - now)
end

-- Takes back an offer that was not confirmed: everything is as it was before.
local function take_back(owner)
  local value, pttl = inherit(owner)
  if value then
    redis.call('SET', lock, value, 'PX', pttl)
    return 'stale', value, pttl
  end
  redis.call('DEL', lock)
  return nil
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
    local left_behind, its_pttl
    for _, owner in ipairs(redis.call('ZRANGEBYSCORE', holders, '-inf', now)) do
      local record = redis.call('HGET', book, 'h:' .. owner)
      redis.call('ZREM', holders, owner)
      redis.call('HDEL', book, 'h:' .. owner)
      if record and string.sub(record, 1, 1) == '?' then
        if not left_behind then
          left_behind, its_pttl = inherit(owner)
        end
        evicted = evicted + 1
        evict_client(client_of(record))
      end
    end
    if redis.call('ZCARD', holders) > 0 then
      return 'shared', value
    end
    if left_behind then  -- as take_back() does it
      redis.call('SET', lock, left_behind, 'PX', its_pttl)
      return 'stale', left_behind, its_pttl
    end
    redis.call('DEL', lock)
    return nil
  end
  local pttl = redis.call('PTTL', lock)
  local linger = field(value, 'linger')
  if not linger or pttl < 0 or pttl > linger then
    return 'exclusive', value, pttl
  end
  if state_of(value) == '?' then
    evicted = evicted + 1  -- the one that did not confirm; the offer took it out of the line
    evict_client(client_of(value))
    return take_back(owner_of(value))
  end
  return 'stale', value, pttl
end

local function limit_of(w)
  return w.kind == 's' and math.huge or tonumber(redis.call('HGET', book, '#limit') or w.limit)
end

-- Makes `owner` one of the shared holders for `ttl` ms; `state` as in the lock's value. The counter
-- lives as long as they do, because a later shared holder must not outrank them.
local function add_holder(owner, state, value, ttl)
  local linger = field(value, 'linger') or 0
  redis.call('ZADD', holders, now + ttl, owner)
  redis.call('HSET', book, 'h:' .. owner, state .. string.sub(value, 34))
  local marker = redis.call('GET', lock)
  if not marker or owner_of(marker) ~= nobody then
    redis.call('SET', lock, nobody .. '={"linger":' .. linger .. '}', 'PX', ttl + linger)
  end
  live(ttl + linger, lock, fence, book, holders)
end

-- While others share the lock, a waiter at the head that wants it exclusively keeps out those behind
-- it, so its client must be alive. Each call for this lock is a sign of life; a client that was silent
-- is asked for one.
local function note_life(owner)
  redis.call('HSET', book, 'a:' .. owner, string.format('0 %.0f', now))
end

local function shows_life(owner, w)
  local asked, at = string.match(redis.call('HGET', book, 'a:' .. owner) or '0 0', '^(%d) (%d+)$')
  asked, at = tonumber(asked), tonumber(at)
  local left = at + time_to_answer - now
  if left > 0 then
    answer_due = asked > 0 and left
    return true
  end
  local caller = calling and waiter_of(calling)
  if caller and caller.client == w.client then
    note_life(owner)
    return true
  end
  if redis.call('ZCARD', line) == 1 then  -- nobody waits behind it
    return true
  end
  if asked == most_questions or not tell(w.client, 'granted ' .. owner) then
    return false
  end
  redis.call('HSET', book, 'a:' .. owner, string.format('%d %.0f', asked + 1, now))
  answer_due = time_to_answer
  return true
end

-- Offers the lock to as many of the next waiters as there is room for, and tells each. Evicts waiters
-- whose client does not listen. `holder`, `left_behind` and its pttl come from settle(). Returns what
-- holds the lock then.
local function advance(holder, left_behind, its_pttl)
  if holder ~= 'stale' then
    left_behind = nil
  end
  while holder ~= 'exclusive' do
    local owner = redis.call('ZRANGE', line, 0, 0)[1]
    if not owner then
      break
    end
    local w = waiter_of(owner)
    if not w then
      redis.call('ZREM', line, owner)
    elseif holder == 'shared' and w.kind == 'x' then
      if shows_life(owner, w) then
        break
      end
      evict_client(w.client)
    elseif holder == 'shared' and redis.call('ZCARD', holders) >= limit_of(w) then
      break
    elseif not tell(w.client, 'granted ' .. owner) then
      evict_client(w.client)
    else
      forget_waiter(owner)
      if left_behind then
        leave_to(owner, left_behind, its_pttl)
        left_behind = nil
      end
      if w.kind == 'x' then
        redis.call('SET', lock, owner .. '?' .. string.sub(w.value, 34), 'PX',
                   time_to_confirm + (field(w.value, 'linger') or 0))
        holder = 'exclusive'
      else
        add_holder(owner, '?', w.value, time_to_confirm)
        holder = 'shared'
      end
    end
  end
  return holder
end

-- Removes the book if nobody needs it any more.
local function tidy()
  if redis.call('EXISTS', line) == 0 and redis.call('EXISTS', holders) == 0 then
    local value = redis.call('GET', lock)
    if not value or state_of(value) ~= '?' then  -- also if it is not ours
      redis.call('DEL', book)
    end
  end
end
