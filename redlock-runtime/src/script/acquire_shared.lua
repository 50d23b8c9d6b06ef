-- ARGV and replies: as of acquire.lua
if overflow then
  return overflow
end
ttl = ARGV[2]
local value = redis.pcall('GET', KEYS[1])
local own = value and end_of(ARGV[1])
-- One that reads already has asked long ago, and must not shorten its own time.
if not value or holder_of(value) == 'shared' and not (own and own > now) then
  set_reader(ARGV[1], now + ttl, own, value)
else
