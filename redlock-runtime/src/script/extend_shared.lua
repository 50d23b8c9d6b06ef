-- KEYS, ARGV and replies: as of extend.lua
local readers = readers_of(redis.call('GET', KEYS[1]))
local ends = end_of(readers, ARGV[1])
if not ends or ends <= now then
  return 0
end
if overflow then
  return overflow
end
ttl = ARGV[2]
remaining = ends - now
-- Written seldom: each time wakes the clients that watch the key.
if remaining < tonumber(ttl) then
  ttl = ARGV[7]
  set_reader(readers, ARGV[1], now + ttl)
end
