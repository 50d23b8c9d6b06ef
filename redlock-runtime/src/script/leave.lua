-- How releases begin.
-- KEYS: lock, its queue if the process gives up its place there, and if it is a slot its line   ARGV: owner
if KEYS[2] then
  redis.pcall('HDEL', KEYS[2], string.sub(ARGV[1], 1, 18), 'free')
end
if KEYS[3] then
  redis.pcall('HDEL', KEYS[2], string.sub(KEYS[1], #KEYS[3] + 1))
  redis.pcall('DEL', KEYS[3])
end
