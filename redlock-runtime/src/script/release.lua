-- ARGV, behind those of leave.lua: for how many ms the lock stays at the most, if it is to stay
-- 1: deleted | 2: it stays | 0: the key is gone, or another owner's
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if not ARGV[2] then
  return redis.call('DEL', KEYS[1])
end
local remaining = redis.call('PTTL', KEYS[1])
-- Never longer: a release that comes late must not prolong the lock.
if remaining < 0 or remaining > tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 2
