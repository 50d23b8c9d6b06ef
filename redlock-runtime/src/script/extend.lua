-- KEYS, behind those of vote.lua: queue, and note if there is one   ARGV, behind those of vote.lua: ttl in ms if the
--   key is written, and what the owner says to those who look at the lock
-- {first number or 0, other process waits (1 or 0), remaining ms before or -1 if it never expires}: the
--   lock is the owner's, and lives for the ttl at the least
-- 0: the key is gone, or another owner's; it is not made again
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if overflow then
  return overflow
end
ttl, waits_at = ARGV[2], KEYS[3]
remaining = redis.call('PTTL', KEYS[1])
-- Written seldom: each time wakes the clients that watch the key.
if remaining >= 0 and remaining < tonumber(ttl) then
  ttl = ARGV[7]
  redis.call('PEXPIRE', KEYS[1], ttl)
end
-- No vote depends on it. It counts while the lock is this owner's, so it needs no release.
if KEYS[4] then
  redis.pcall('SET', KEYS[4], ARGV[1] .. ' ' .. ARGV[8], 'PX', ttl)
end
