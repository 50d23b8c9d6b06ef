-- What extend.lua does without a block and without a queue, for several locks: what they have in common is done
-- once.
-- KEYS: locks, node   ARGV: admission, and for each lock owner, ttl in ms, ttl in ms if the key is written
-- -1: another admission stands, or none
-- for each lock: 0 as of extend.lua, or two more than the remaining time in ms
local count = #KEYS - 1
local hash = KEYS[count + 1]
local node = redis.pcall('HMGET', hash, 'admission', 'longest', 'longest_until')
-- What is no hash names no admission.
if node.err and not string.find(node.err, 'WRONGTYPE') then
  return node
end
if node[1] ~= ARGV[1] then
  return -1
end
-- Numbers from here on, so that what is no number is an error before anything is written.
local longest, longest_until = (node[2] or 0) + 0, (node[3] or 0) + 0
local time = redis.call('TIME')
-- Another type than text has no owner here.
local owners = redis.call('MGET', unpack(KEYS, 1, count))
local highest = 0
local replies = {}
for i = 1, count do
  if owners[i] ~= ARGV[3 * i - 1] then
    replies[i] = 0
  else
    local ttl = tonumber(ARGV[3 * i])
    local remaining = redis.call('PTTL', KEYS[i])
    -- Written seldom: each time wakes the clients that watch the key.
    if remaining >= 0 and remaining < ttl then
      ttl = tonumber(ARGV[3 * i + 1])
      redis.call('PEXPIRE', KEYS[i], ARGV[3 * i + 1])
    end
    highest = math.max(highest, ttl)
    replies[i] = remaining + 2
  end
end
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now < longest_until then
  if highest > longest then
    redis.call('HSET', hash, 'longest', string.format('%.0f', highest))
  end
elseif highest > 0 then
  local period = tonumber(redis.call('HGET', hash, 'max_ttl') or '') or 1e12
  redis.call('HSET', hash, 'longest', string.format('%.0f', highest),
    'longest_before', string.format('%.0f', longest),
    'longest_until', string.format('%.0f', now + period))
end
return replies
