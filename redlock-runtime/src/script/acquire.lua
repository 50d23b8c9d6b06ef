-- KEYS: lock, node   ARGV: owner, ttl in ms, stripe, proposed counter, process id, how much longer
--   a key may live that is handed over within a process, in ms, or '' if it is not, waits (1 or 0)
-- 1: granted, and the stripe's counter is the proposed one; nothing more to say
-- {counter, was ours, awaited}: granted; where the counter stands, whether the key carried the owner
--   already, whether somebody else waits
-- {remaining}: held by another, for so many ms, -1 if it never expires
-- -3: the process that holds this data has not been admitted
local note = 'awaited ' .. ARGV[3]
local node = redis.call('HMGET', KEYS[2], 'run', ARGV[3], note)
if node[1] ~= ARGV[5] then
  return -3
end
local was_ours = 0
if ARGV[6] ~= '' and redis.pcall('GET', KEYS[1]) == ARGV[1] then
  -- Written seldom: every time wakes those who listen for its release.
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2] + ARGV[6])
  end
  was_ours = 1
elseif not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if ARGV[7] == '1' then
    redis.pcall('HSET', KEYS[2], note, redis.call('TIME')[1])
  end
  return {redis.call('PTTL', KEYS[1])}
end
-- As text, as which it is kept and sent: making text of numbers is dear.
local counter = ARGV[4]
local before = tonumber(node[2] or redis.call('HGET', KEYS[2], 'floor') or '0')
local ahead = counter - before
if ahead <= 0 then
  -- Not tostring: it prints 1.79e+15.
  counter = string.format('%d', before + 1)
elseif ahead > 5000000 then
  -- Proposals are wall clocks in us. One far ahead must not use up the numbers of years. In whole
  -- seconds, so that nodes agree.
  local limit = (redis.call('TIME')[1] + 5) * 1000000
  counter = string.format('%d', math.max(before + 1, math.min(counter, limit)))
end
redis.call('HSET', KEYS[2], ARGV[3], counter)
local awaited = 0
if node[3] then
  -- Whoever waits renews it more often than once in a second.
  if math.abs(redis.call('TIME')[1] - node[3]) <= 1 then
    awaited = 1
  else
    redis.call('HDEL', KEYS[2], note)
  end
elseif was_ours == 0 and counter == ARGV[4] then
  return 1
end
return {tonumber(counter), was_ours, awaited}
