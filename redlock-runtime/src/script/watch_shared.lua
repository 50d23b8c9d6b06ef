-- KEYS: lock   ARGV: owner
-- 1: the owner shares the lock, or has it alone | 0: others have it | nothing: the lock is free
local value = redis.pcall('GET', KEYS[1])
if end_of(ARGV[1]) or value == ARGV[1] then
  return 1
end
return value and 0
