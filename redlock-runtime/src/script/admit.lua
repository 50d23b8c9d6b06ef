-- KEYS: node, quarantine   ARGV: process id, quarantine in ms, durable (1 or 0), floor or '', no
--   quarantine unless there was a flush (1 or 0)
-- "OK": may vote | {remaining ms}: quarantined | 0: the quarantine is over, a floor is wanted
local function was_flushed()
  local counts = redis.pcall('INFO', 'commandstats')
  if type(counts) ~= 'string' then
    return true
  end
  for _, name in ipairs({'flushall', 'flushdb', 'swapdb'}) do
    if string.find(counts, 'cmdstat_' .. name .. ':', 1, true) then
      return true
    end
  end
  return false
end
local node = redis.call('HMGET', KEYS[1], 'run', 'pending')
if node[1] == ARGV[1] then
  return redis.status_reply('OK')
end
if node[1] and ARGV[3] == '1' then
  -- Another process with the same data, all of which was on disk.
  redis.call('HSET', KEYS[1], 'run', ARGV[1])
  redis.call('HDEL', KEYS[1], 'pending')
  return redis.status_reply('OK')
end
if node[2] ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'pending', ARGV[1])
  if tonumber(ARGV[2]) > 0 and (ARGV[5] == '0' or was_flushed()) then
    redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
  else
    redis.call('DEL', KEYS[2])
  end
end
local remaining = redis.call('PTTL', KEYS[2])
if remaining > 0 then
  return {remaining}
end
if ARGV[4] == '' then
  return 0
end
-- Its counters start again, from where none of them and none of the other nodes' has been.
local floor = tonumber(ARGV[4])
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if tonumber(fields[i]) then
    floor = math.max(floor, tonumber(fields[i + 1]))
    redis.call('HDEL', KEYS[1], fields[i])
  end
end
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'floor', string.format('%d', floor))
redis.call('HDEL', KEYS[1], 'pending')
return redis.status_reply('OK')
