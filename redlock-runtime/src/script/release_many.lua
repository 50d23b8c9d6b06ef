-- What release.lua does for a lock that does not stay, for several.
-- KEYS: locks   ARGV: owners
-- for each lock what release.lua says of it
local replies = {}
for i = 1, #KEYS do
  -- Another type than text has no owner here.
  replies[i] = redis.pcall('GET', KEYS[i]) == ARGV[i] and redis.call('DEL', KEYS[i]) or 0
end
return replies
