-- KEYS: lock, node   ARGV: owner, stripe, token
-- 1: the lock is the owner's, and the stripe's counter is at the token or beyond | 0: it is not
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(redis.call('HGET', KEYS[2], ARGV[2]) or '0') < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
end
return 1
