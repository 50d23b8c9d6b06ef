-- How releases begin.
-- KEYS: lock, and its queue if the process gives up its place there   ARGV: owner
if KEYS[2] then
  redis.pcall('HDEL', KEYS[2], string.sub(ARGV[1], 1, 18))
end
