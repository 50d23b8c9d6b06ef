-- KEYS: lock, node   ARGV: owner, stripe, counter to catch up with, or 0
-- 1: deleted | 0: the key is gone, or another owner's
local deleted = 0
if redis.call('GET', KEYS[1]) == ARGV[1] then
  deleted = redis.call('DEL', KEYS[1])
end
-- Brings counters that differ together again, so that the next grants agree on one number. A node
-- that is out of memory must delete all the same.
if ARGV[3] ~= '0' and tonumber(redis.call('HGET', KEYS[2], ARGV[2]) or '0') < tonumber(ARGV[3]) then
  redis.pcall('HSET', KEYS[2], ARGV[2], ARGV[3])
end
return deleted
