-- 1: the lock is the owner's, now or as before
-- what held.lua says: another owner has it
ttl = ARGV[2]
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then
  local value = redis.pcall('GET', KEYS[1])
  if value == ARGV[1] then
    return 1
  end
