-- KEYS, ARGV and replies: as of extend.lua
-- It has had the lock alone until now.
local is_alone = redis.pcall('GET', KEYS[1]) == ARGV[1]
local ends = is_alone and now + math.max(redis.call('PTTL', KEYS[1]), 1) or end_of(ARGV[1])
if not ends or ends <= now then
  return 0
end
if overflow then
  return overflow
end
ttl, waits_at = ARGV[2], KEYS[3]
if is_alone then
  redis.call('DEL', KEYS[1])
  local done = redis.pcall('ZADD', KEYS[1], string.format('%.0f', ends), ARGV[1])
  done = type(done) == 'table' and done or live_until(ends)
  if type(done) == 'table' then
    -- The user may not: the lock stays as it was.
    redis.call('SET', KEYS[1], ARGV[1], 'PXAT', string.format('%.0f', ends))
    return done
  end
  -- Its place in the queue is that of one who has the lock alone, and readers wait behind it.
  redis.pcall('HDEL', KEYS[3], string.sub(ARGV[1], 1, 18), 'free')
end
remaining = ends - now
-- Written seldom: each time wakes the clients that watch the key.
if remaining < tonumber(ttl) then
  ttl = ARGV[7]
  set_reader(ARGV[1], now + ttl, ends, true)
end
