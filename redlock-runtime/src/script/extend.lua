-- KEYS: lock   ARGV: owner, ttl in ms
-- 1: extended | 0: the key is gone, or another owner's; it is not made again
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
