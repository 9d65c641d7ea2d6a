-- contend: takes a lock as far as `mode` allows, confirms an offer, or joins the line. Repeating it
-- with the same owner is safe and keeps the place in the line.
--
-- KEYS as in include/line.lua
-- ARGV[1]  value        what to write into the lock: owner, '=', record
-- ARGV[2]  ttl          ms of the grant
-- ARGV[3]  kind         x: exclusive; s: shared with others of this kind; p: one of `limit` permits
-- ARGV[4]  limit        number of permits
-- ARGV[5]  mode         free: take only a lock that nobody holds; silent: also one whose holder is
--                       silent; always: from any holder
-- ARGV[6]  silence      ms without a heartbeat after which a holder counts as silent
-- ARGV[7]  runner       the caller's, if it may adopt the lock of its earlier incarnation
-- ARGV[8]  incarnation  the caller's present one
-- ARGV[9]  join         no: do not wait; tail: wait in line; head: wait before all others
-- ARGV[10] priority     steps ahead in the line
-- ARGV[11] place        the place it had before it was evicted; 0 for a new one
-- ARGV[12] resize       yes: `limit` counts from now on; no: only if none is stored
-- ARGV[13] until        server ms after which the caller has given up; 0: it repeats or withdraws
-- ARGV[14] least        a new token is not smaller; see seed_token in include/line.lua
--
-- Reply: {kind, token, value, pttl, s, µs, place, evicted, clients}. Clients is how many wait in line,
-- 0 if this one does not. Value and pttl are those of the present or
-- previous holder, s and µs the server's time. The kind is
--   late     not granted, and nothing was done: the caller has given up
--   busy     not granted; in the line if it joined; the token is the holder's, 0 if unknown
--   free     granted; nobody held it
--   handed   an offer of the line, now confirmed; value: of the holder that expired, if any
--   mine     granted before (an earlier reply was lost)
--   adopted  taken over from the caller's own earlier incarnation: with its token, or with a new one if
--            that may be alive
--   stale    granted; the previous holder had expired without a release
--   stolen   granted; the previous holder was silent
--   forced   granted; the previous holder was alive
--#include line.lua
local value, ttl = ARGV[1], tonumber(ARGV[2])
local kind, limit, mode, silence = ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local runner, incarnation = ARGV[7], ARGV[8]
local join, priority, place = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])
local resize, deadline, least = ARGV[12], tonumber(ARGV[13]), tonumber(ARGV[14])
local owner = owner_of(value)
local px = ttl + (field(value, 'linger') or 0)

if deadline > 0 and now > deadline then
  return {'late'}
end
local holder, current, pttl = settle()

local clients = 0
local function reply(what, token, previous)
  return {what, token, previous or false, pttl or -2, clock[1], clock[2], place, evicted, clients}
end

-- An exclusive grant gets a new token, a shared one has that of the last exclusive grant.
local function token_for_grant()
  if kind == 'x' then
    return next_token(value, least)
  end
  local token = tonumber(redis.call('GET', fence) or 0)
  -- Those who share it have the same token, unless all of them only have offers.
  local too_old = token < least and not (holder == 'shared' and field(current, 'token'))
  return (token == 0 or too_old) and seed_token(value, least) or token
end

-- The record has the token from its first heartbeat on. Until then it is that of the counter.
local function holders_token(from)
  return field(from, 'token') or tonumber(redis.call('GET', fence) or 0)
end

local function write_grant(token)
  if kind == 'x' then
    redis.call('SET', lock, value, 'PX', px)
  else
    add_holder(owner, string.sub(value, 33), ttl, token)
  end
end

local function grant(what, previous)
  local token = token_for_grant()
  local answer = reply(what, token, previous)
  write_grant(token)  -- after the token: it keeps the counter of a shared lock alive
  if what ~= 'handed' then  -- an offer has taken it out of the line already
    forget_waiter(owner)
  end
  if kind ~= 'x' then
    advance('shared')  -- others may fit beside it
  end
  tidy()
  return answer
end

-- Takes the lock away from its holders, and tells them.
local function oust()
  if holder == 'shared' then
    for _, other in ipairs(redis.call('ZRANGE', holders, 0, -1)) do
      dismiss(other, redis.call('HGET', book, 'h:' .. other), 'taken')
    end
    redis.call('DEL', holders, lock)
  else
    dismiss(owner_of(current), string.sub(current, 33), 'taken')
  end
end

-- Whether the exclusive holder was silent for so many ms, and has missed two of its heartbeats. One that
-- promised none keeps its lock until its ttl ends.
local function is_silent(ms)
  local linger, every = field(current, 'linger'), field(current, 'every')
  return linger and every > 0 and
    field(current, 'ttl') + linger - pttl >= math.max(ms, 2 * every)
end

-- Does the caller have a grant or an offer already?
local own = holder == 'exclusive' and owner_of(current) == owner and string.sub(current, 33)
if holder == 'shared' then
  own = redis.call('HGET', book, 'h:' .. owner)
end
local mine = own and string.sub(own, 1, 1)
if mine == '=' then
  write_again()
  local token = holders_token(kind == 'x' and current or '')
  return reply('mine', token == 0 and token_for_grant() or token)
end
if mine == '?' then
  even_if_full()
  local previous
  previous, pttl = left_behind_in(own)
  return grant('handed', previous)
end

if kind == 'p' then
  redis.call(resize == 'yes' and 'HSET' or 'HSETNX', book, '#limit', limit)
end

if holder == 'exclusive' or holder == 'stale' then
  -- The first match counts: the holder's metadata comes last and may contain such words too.
  local same_runner = runner ~= '' and
    string.match(current, '"runner":"([^"]*)"') == runner and
    string.match(current, '"incarnation":"([^"]*)"') ~= incarnation
  local token = same_runner and state_of(current) == '=' and holders_token(current) or 0
  if kind == 'x' and token ~= 0 then
    if holder == 'exclusive' and not is_silent(0) then
      oust()  -- perhaps a copy of this runner on another machine, alive: it is told, and outranked
      return grant('adopted', current)
    end
    write_grant()
    forget_waiter(owner)
    tidy()
    return reply('adopted', token, current)
  end
end

local beside = holder == 'shared' and kind ~= 'x'
if mode == 'always' and holder and holder ~= 'stale' then
  if not beside then
    oust()
  end
  return grant('forced', holder == 'exclusive' and current)
end
if mode == 'silent' and holder == 'exclusive' and state_of(current) == '=' and is_silent(silence) then
  oust()
  return grant('stolen', current)
end

local function has_room()
  local room = holder == nil or holder == 'stale'
  if holder == 'shared' and kind ~= 'x' then
    local most = limit_of({kind = kind, limit = limit})
    room = redis.call('ZCARD', holders) < most
  end
  return room
end

-- Nobody overtakes those who wait, except by force.
local first
local function is_my_turn()
  first = redis.call('ZRANGE', line, 0, 0)[1]
  return not first or first == owner or join == 'head' or mode == 'always'
end

local room = has_room()
local my_turn = is_my_turn()
if room and not my_turn and join == 'no' then  -- perhaps only crashed processes wait there
  show('newcomer')  -- which does not wait, but wants those who do to show themselves
  advance(holder, current, pttl)
  holder, current, pttl = settle()
  room, my_turn = has_room(), is_my_turn()
end
if room and my_turn then
  return grant(holder == 'stale' and 'stale' or 'free', holder == 'stale' and current)
end

if join ~= 'no' then
  local known, latest = unpack(redis.call('HMGET', book, 'w:' .. owner, '#seq'))
  clients = show(client_of(value))
  if not known then
    -- A new line starts counting from the clock, so that a waiter of an earlier line that comes back
    -- still stands before those who came later.
    latest = tonumber(latest or now)
    if place == 0 then
      place = latest + 1
    end
    local score = place - priority * overtake
    if join == 'head' and first then
      score = tonumber(redis.call('ZSCORE', line, first)) - 1
    end
    redis.call('ZADD', line, score, owner)
    redis.call('HSET', book, '#seq', math.max(latest, place), 'w:' .. owner, pack_waiter({
      client = client_of(value), kind = kind, limit = limit, priority = priority, since = now,
      place = place, value = value}))
    keep_line()
    if not first and holder == 'exclusive' and client_of(current) then
      tell(client_of(current), 'awaited', owner_of(current))  -- so that it does not try release.lua first
    end
  else
    place = unpack_waiter(known).place
  end
  if room or kind == 'p' then  -- more permits than before make room for waiters
    advance(holder, current, pttl)
    holder, current, pttl = settle()
  end
else
  tidy()
end
if not current or holder == 'shared' then
  return reply('busy', 0, current)
end
return reply('busy', holders_token(current), current)
