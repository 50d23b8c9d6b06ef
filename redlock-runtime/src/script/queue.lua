-- What acquire.lua and acquire_shared.lua do, for a process with a ticket: in the order of a queue. It is advice, and
-- this node's: a grant of one node alone gives no client the lock.
-- KEYS, behind those of vote.lua: queue, a hash. By process: '<came> <since> <until> <grace> <mode>'. When it came,
--   by its own clock; since when it waits and until when the place lasts, in ms of this node's clock; for how
--   many ms those behind it leave it a lock that is free; and x if it is to have the lock alone, s if it shares it
-- ARGV, behind those of vote.lua: came, ms waited, ms that its place lasts (0: it takes none), grace, mode, and
--   passes: since when the first waits, as it was told, to pass all; or '', to pass them and leave them their places
-- 1 or {first number, other process waits (1 or 0)}: granted, as by acquire.lua
-- {as of held.lua; or -2 and '': the lock is free, but not for this one; then how many are ahead, their grace
--   together (if there are none that of the holder's place), since when the first of them or the holder waits}
if overflow then
  return overflow
end
local process, mode = string.sub(ARGV[1], 1, 18), ARGV[11]
local value = redis.pcall('GET', KEYS[1])
local holder = type(value) == 'string' and string.sub(value, 1, 18)

-- The places that have not ended. What is no hash is no queue.
local since = now - ARGV[8]
local places, gone = {}, {}
local fields = redis.pcall('HGETALL', KEYS[3])
for i = 1, #fields, 2 do
  local came, from, to, grace, how = string.match(fields[i + 1], '^(%d+) (%-?%d+) (%-?%d+) (%d+) ([xs])$')
  to = tonumber(to)
  -- One that lasts longer than any place can was made before the clock was set back.
  if not to or to <= now or to > now + 1000 then
    gone[#gone + 1] = fields[i]
  else
    if fields[i] == process and came == ARGV[7] then
      since = tonumber(from)
    end
    -- Those that share the lock do not wait for each other.
    places[fields[i]] = {since = tonumber(from), grace = tonumber(grace), excludes = mode == 'x' or how == 'x'}
  end
end

-- Those that came before. The process that has the lock is not ahead any more, but it counts as the first: who is
-- told of it and finds another one knows that the lock has been free for that one only since then.
local ahead, earliest, grace = {}, nil, 0
for other, place in pairs(places) do
  local is_before = place.since < since or place.since == since and other < process
  if is_before and place.excludes and other ~= process then
    earliest = math.min(earliest or place.since, place.since)
    if other ~= holder then
      ahead[#ahead + 1] = other
      grace = grace + place.grace
    end
  end
end
earliest = math.max(earliest or 0, 0)
if #ahead == 0 and places[holder] then
  grace = places[holder].grace
end

local readers = mode == 's' and readers_of(value)
local own = readers and end_of(readers, ARGV[1])
local is_granted
if value then
  -- One that waits to have the lock alone waits for the readers, and is not passed for that. One that reads
  -- already has asked long ago, and must not shorten its own time.
  is_granted = readers and not (own and own > now) and #ahead == 0
else
  is_granted = #ahead == 0 or ARGV[12] == '' or ARGV[12] == string.format('%.0f', earliest)
end

local keeps_place = true
if is_granted then
  ttl = ARGV[2]
  -- The first write, so that every error comes before anything is done.
  if mode == 's' then
    undo = function()
      set_reader(readers, ARGV[1])
    end
    set_reader(readers, ARGV[1], now + ttl)
  else
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
  end
  places[process] = nil
  if ARGV[12] ~= '' then
    -- Those that it goes before may be gone: who is not takes its place again.
    for _, other in ipairs(ahead) do
      places[other] = nil
      gone[#gone + 1] = other
    end
  end
  for _, place in pairs(places) do
    is_waited_for = is_waited_for or place.excludes
  end
  -- Other nodes may refuse one that is to have the lock alone. Its place counts again once the lock is gone.
  keeps_place = ARGV[12] ~= '' and mode == 'x'
end

-- No error from here on: what a process may not do, or for which there is no memory, is left undone.
local stands = keeps_place and ARGV[9] ~= '0'
if #fields > 0 and not stands then
  gone[#gone + 1] = process
end
for _, other in ipairs(gone) do
  redis.pcall('HDEL', KEYS[3], other)
end
if stands then
  local place = string.format('%s %.0f %.0f %s %s', ARGV[7], since, now + ARGV[9], ARGV[10], mode)
  redis.pcall('HSET', KEYS[3], process, place)
  redis.pcall('PEXPIRE', KEYS[3], 1000)
end

if not is_granted then
  standing = {#ahead, grace, earliest}
