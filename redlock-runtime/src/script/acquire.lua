-- KEYS: lock, node   ARGV: owner, ttl in ms, stripe, proposed counter, process id, owner to take
--   over from or '', waits (1 or 0)
-- {counter, replaced, awaited}: granted, with the number that this grant has raised the stripe's
--   counter to, whether the key was taken over, and whether somebody else waits
-- remaining time of the present holder's key in ms, -1 if it never expires: held
-- -3: the process that holds this data has not been admitted
local note = 'awaited ' .. ARGV[3]
local node = redis.call('HMGET', KEYS[2], 'run', ARGV[3], 'floor', note)
if node[1] ~= ARGV[5] then
  return -3
end
local now = function()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local replaced = 0
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if ARGV[6] == '' or redis.pcall('GET', KEYS[1]) ~= ARGV[6] then
    if ARGV[7] == '1' then
      redis.pcall('HSET', KEYS[2], note, string.format('%.0f', now()))
    end
    return redis.call('PTTL', KEYS[1])
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  replaced = 1
end
local counter = tonumber(node[2] or '0')
local floor = tonumber(node[3] or '0')
if floor > counter then counter = floor end
local proposed = tonumber(ARGV[4])
if proposed > counter + 5000000 then
  -- Proposals are wall clocks in us. One that is far ahead must not use up the numbers of years.
  local limit = now() + 5000000
  if proposed > limit then proposed = limit end
end
if proposed > counter then counter = proposed else counter = counter + 1 end
-- Not tostring: it prints 1.79e+15.
redis.call('HSET', KEYS[2], ARGV[3], string.format('%.0f', counter))
local awaited = 0
if node[4] then
  -- Renewed by every attempt of whoever waits, which come more often than this.
  if math.abs(now() - tonumber(node[4])) < 250000 then
    awaited = 1
  else
    redis.call('HDEL', KEYS[2], note)
  end
end
return {counter, replaced, awaited}
