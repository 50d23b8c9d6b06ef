-- KEYS: lock   ARGV: owner
-- 1: deleted | 0: the key is gone, or another owner's
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
