-- What extend.lua does without a block, for several locks: what they have in common is done once.
-- KEYS: locks, node   ARGV: admission, and for each lock owner, ttl in ms, ttl in ms if the key is
--   written, stripe, fingerprint
-- -1: another admission stands, or none
-- for each lock what extend.lua says of it; two more than the remaining time in ms if that is all
local count = #KEYS - 1
local hash = KEYS[count + 1]
local fields = {'admission', 'longest', 'longest_until'}
for i = 1, count do
  fields[i + 3] = 'waiter ' .. ARGV[5 * i] .. (string.match(KEYS[i], '#__redlock:%d%d?$') or '')
end
local node = redis.pcall('HMGET', hash, unpack(fields))
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
  local owner = ARGV[5 * i - 3]
  if owners[i] ~= owner then
    replies[i] = 0
  else
    local ttl = tonumber(ARGV[5 * i - 2])
    local remaining = redis.call('PTTL', KEYS[i])
    -- Written seldom: each time wakes the clients that watch the key.
    if remaining >= 0 and remaining < ttl then
      ttl = tonumber(ARGV[5 * i - 1])
      redis.call('PEXPIRE', KEYS[i], ARGV[5 * i - 1])
    end
    highest = math.max(highest, ttl)
    local has_waiter = 0
    if node[i + 3] then
      local second, key, process = string.match(node[i + 3], '^(%d+) (%d+) (%S+)')
      if math.abs(time[1] - (second or 0)) > 1 then
        redis.call('HDEL', hash, fields[i + 3])
      elseif key == ARGV[5 * i + 1] and process ~= string.sub(owner, 1, 18) then
        has_waiter = 1
      end
    end
    replies[i] = has_waiter == 0 and remaining + 2 or {0, 1, remaining}
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
