-- 1: the lock is the owner's, now or as before
-- {remaining ms or -1 if it never expires, owner, 'shared' or ''}: held
ttl = ARGV[2]
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then
  local holder = redis.pcall('GET', KEYS[1])
  if holder == ARGV[1] then
    return 1
  end
  return held(holder)
end
