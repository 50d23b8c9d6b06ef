-- 1: the owner reads no more | 0: it did not
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  -- This node has not heard that the owner shares the lock.
  return redis.call('DEL', KEYS[1])
end
local ends = end_of(ARGV[1])
if not ends then
  return 0
end
remove_reader(ARGV[1])
return ends > now and 1 or 0
