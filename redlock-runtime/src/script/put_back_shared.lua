-- Replies: as of put_back.lua
shares = true
ttl = ARGV[2]
local value = redis.pcall('GET', KEYS[1])
local readers = readers_of(value)
if value and not readers then
  return held(value)
end
local ends = end_of(readers, ARGV[1])
if ends and ends > now then
  return 1
end
undo = function()
  set_reader(readers, ARGV[1])
end
set_reader(readers, ARGV[1], now + ttl)
