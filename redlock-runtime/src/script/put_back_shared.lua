-- Replies: as of put_back.lua
ttl = ARGV[2]
local value = redis.pcall('GET', KEYS[1])
local readers = readers_with(ARGV[1], value)
local ends = end_of(readers, ARGV[1])
if ends and ends > now then
  return 1
end
if not value or readers then
  undo = function()
    set_reader(readers, ARGV[1])
  end
  set_reader(readers, ARGV[1], now + ttl)
else
