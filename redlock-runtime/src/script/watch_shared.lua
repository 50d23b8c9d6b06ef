-- KEYS: lock   ARGV: owner
-- 1: the owner shares the lock, or has it alone yet | what holder.lua says of another one | nothing: the lock is free
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] or end_of(ARGV[1]) then
  return 1
end
return value and holder_of(value)
