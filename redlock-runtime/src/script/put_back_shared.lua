-- Replies: as of put_back.lua
ttl = ARGV[2]
local value = redis.pcall('GET', KEYS[1])
local ends = value and end_of(ARGV[1])
if value == ARGV[1] or ends and ends > now then
  return 1
end
if not value or holder_of(value) == 'shared' then
  set_reader(ARGV[1], now + ttl, ends, value)
else
