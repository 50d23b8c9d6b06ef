-- KEYS: queue   ARGV: process, waiter, ms waited, ms that it waits on
-- 1: the process has the place, or none, because it does not wait
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = now - math.min(tonumber(ARGV[3]), 4503599627370496)
local lasts = math.min(tonumber(ARGV[4]), 1000)
if lasts == 0 then
  redis.pcall('HDEL', KEYS[1], ARGV[1])
  return 1
end
-- As queue.lua writes it.
redis.pcall('HSET', KEYS[1], ARGV[1], string.format('%s %.0f %.0f', ARGV[2], since, now + lasts))
redis.pcall('PEXPIRE', KEYS[1], 1000)
return 1
