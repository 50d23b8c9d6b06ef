-- KEYS: lock, node   ARGV: owner, ttl in ms, process id
-- {remaining}: extended, and what was left before, in ms
-- 0: the key is gone, or another owner's; it is not made again
-- -3: the process that holds this data has not been admitted
if redis.call('HGET', KEYS[2], 'run') ~= ARGV[3] then
  return -3
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  local remaining = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {remaining}
end
return 0
