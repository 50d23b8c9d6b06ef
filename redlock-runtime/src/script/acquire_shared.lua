-- ARGV and replies: as of acquire.lua
if overflow then
  return overflow
end
ttl = ARGV[2]
local value = redis.pcall('GET', KEYS[1])
local readers = readers_of(value)
local own = end_of(readers, ARGV[1])
-- One that reads already has asked long ago, and must not shorten its own time.
if not value or readers and not (own and own > now) then
  undo = function()
    set_reader(readers, ARGV[1])
  end
  set_reader(readers, ARGV[1], now + ttl)
else
