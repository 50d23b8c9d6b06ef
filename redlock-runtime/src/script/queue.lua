-- Between vote.lua and acquire.lua, if the lock is fair.
-- KEYS, behind those of vote.lua: queue   ARGV, behind `waits`: waiter, ms waited, ms that it waits on
-- {ms until the places of those ahead end, '', how many are ahead}: the lock is free, but not for this one
if overflow then
  return overflow
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local process = string.sub(ARGV[1], 1, 18)
-- By process: '<waiter> <since when it waits> <until when the place lasts>'. What is no hash is no queue.
local places = redis.pcall('HGETALL', KEYS[3])
local since
for i = 1, #places, 2 do
  local waiter, from, to = string.match(places[i + 1], '^(%d+) (%-?%d+) (%-?%d+)$')
  from, to = tonumber(from), tonumber(to)
  -- One that lasts longer than any place can was made before the clock was set back.
  if not to or to <= now or to > now + 1000 then
    redis.pcall('HDEL', KEYS[3], places[i])
    from = nil
  elseif places[i] == process then
    since = waiter == ARGV[9] and from
    from = nil
  end
  places[i + 1] = {from, to}
end
local has_place = since ~= nil
since = since or now - math.min(tonumber(ARGV[10]), 4503599627370496)
local until_free = 0
ahead = 0
for i = 1, #places, 2 do
  local from, to = places[i + 1][1], places[i + 1][2]
  if from and (from < since or from == since and places[i] < process) then
    ahead = ahead + 1
    until_free = math.max(until_free, to)
  end
end
-- Not EXISTS, for which users would need one more right.
local is_held = redis.call('PTTL', KEYS[1]) ~= -2
local lasts = math.min(tonumber(ARGV[11]), 1000)
if (is_held or ahead > 0) and lasts > 0 then
  local place = string.format('%s %.0f %.0f', ARGV[9], since, now + lasts)
  redis.pcall('HSET', KEYS[3], process, place)
  redis.pcall('PEXPIRE', KEYS[3], 1000)
elseif has_place then
  redis.pcall('HDEL', KEYS[3], process)
end
if ahead > 0 and not is_held then
  return {until_free - now, '', ahead}
end
