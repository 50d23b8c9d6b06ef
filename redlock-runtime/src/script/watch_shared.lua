-- KEYS: lock   ARGV: owner
-- 1: the owner shares the lock | what holder.lua says of who has it else | nothing: the lock is free
local value = redis.pcall('GET', KEYS[1])
if end_of(ARGV[1]) then
  return 1
end
return value and holder_of(value)
