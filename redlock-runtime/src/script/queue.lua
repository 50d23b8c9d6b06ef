-- Who waits for a lock, and how the process with the ticket stands.
-- KEYS: lock, or the line of a lock with permits; and, as the last, queue, a hash. By process: '<came> <since> <until>
--   <grace> <mode>'. When it came, by its own clock; since when it waits and until when the place lasts, in ms of
--   this node's clock; for how many ms those behind it leave it a lock that is free; and x if it is to have the lock
--   alone or several permits, s if it shares it or is to have one permit. By the number of a slot that is left to a
--   process which was told of it: '<until>'. By 'free': since when the lock has been free and left to those ahead
-- ARGV: owner, five of the script's, and the ticket: came, ms waited, ms that its place lasts (0: it takes none),
--   grace, mode, and 1 if the order counts, else 0: it goes before those ahead then, and leaves them their places
local queue = KEYS[#KEYS]
local process, mode = string.sub(ARGV[1], 1, 18), ARGV[11]
local value = redis.pcall('GET', KEYS[1])
local holder = type(value) == 'string' and string.sub(value, 1, 18)

-- The places that have not ended. What is no hash is no queue.
local since = now - ARGV[8]
local places, promised, gone, free = {}, {}, {}, nil
local fields = redis.pcall('HGETALL', queue)
for i = 1, #fields, 2 do
  local field = fields[i]
  local came, from, to, grace, how = string.match(fields[i + 1], '^(%d+) (%-?%d+) (%-?%d+) (%d+) ([xs])$')
  local slot = tonumber(field)
  to = tonumber(slot and fields[i + 1] or to)
  -- One that lasts longer than any place can was made before the clock was set back.
  if field == 'free' then
    free = tonumber(fields[i + 1])
  elseif not to or to <= now or to > now + 1000 then
    gone[#gone + 1] = field
  elseif slot then
    promised[slot] = to
  else
    if field == process and came == ARGV[7] then
      since = tonumber(from)
    end
    -- Those that share the lock do not wait for each other.
    places[field] = {since = tonumber(from), grace = tonumber(grace), excludes = mode == 'x' or how == 'x', how = how}
  end
end

-- Those that came before. The process that has the lock is not ahead any more.
local ahead, grace = {}, 0
for other, place in pairs(places) do
  local is_before = place.since < since or place.since == since and other < process
  if is_before and place.excludes and other ~= process and other ~= holder then
    ahead[#ahead + 1] = other
    grace = grace + place.grace
  end
end
if #ahead == 0 and places[holder] then
  grace = places[holder].grace
end
grace = math.min(grace, 40)

-- The lock is free: the process may have it, because nobody is ahead or all of them have had their time.
local function is_next()
  if free and free <= now then
    grace = grace - math.min(now - free, grace)
  end
  return #ahead == 0 or ARGV[12] == '0' or free and free <= now and grace == 0
end

-- The process gets the lock. Those that it passes may be gone: who is not takes its place again.
local function pass()
  for _, other in ipairs(ARGV[12] == '0' and {} or ahead) do
    places[other] = nil
    gone[#gone + 1] = other
  end
end

-- No error from here on: what a process may not do, or for which there is no memory, is left undone. What keeps the
-- process from its place is returned.
local function keep_place(stands, is_left)
  stands = stands and ARGV[9] ~= '0'
  if not is_left and free then
    gone[#gone + 1] = 'free'
  elseif is_left and not (free and free <= now) then
    redis.pcall('HSET', queue, 'free', string.format('%.0f', now))
  end
  if #fields > 0 and not stands then
    gone[#gone + 1] = process
  end
  for _, other in ipairs(gone) do
    redis.pcall('HDEL', queue, other)
  end
  if stands then
    local place = string.format('%s %.0f %.0f %s %s', ARGV[7], since, now + ARGV[9], ARGV[10], mode)
    local kept = redis.pcall('HSET', queue, process, place)
    redis.pcall('PEXPIRE', queue, 1000)
    return type(kept) == 'table' and kept
  end
end
