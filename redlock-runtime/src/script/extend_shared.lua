-- KEYS, ARGV and replies: as of extend.lua
local readers, is_alone = readers_with(ARGV[1], redis.call('GET', KEYS[1]))
local ends = end_of(readers, ARGV[1])
if not ends or ends <= now then
  return 0
end
if overflow then
  return overflow
end
if is_alone then
  -- Its place in the queue is that of one who has the lock alone, and readers wait behind it.
  redis.pcall('HDEL', KEYS[3], string.sub(ARGV[1], 1, 18), 'free')
  set_reader(readers, ARGV[1], ends)
end
ttl, waits_at = ARGV[2], KEYS[3]
remaining = ends - now
-- Written seldom: each time wakes the clients that watch the key.
if remaining < tonumber(ttl) then
  ttl = ARGV[7]
  set_reader(readers, ARGV[1], now + ttl)
end
