-- 1: the owner reads no more | 0: it did not
local readers = readers_with(ARGV[1], redis.call('GET', KEYS[1]))
local ends = end_of(readers, ARGV[1])
if not ends then
  return 0
end
set_reader(readers, ARGV[1])
return ends > now and 1 or 0
