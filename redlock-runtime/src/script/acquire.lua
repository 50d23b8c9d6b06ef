-- KEYS, behind those of vote.lua: if the lock is a slot, the queue of its line   ARGV: those of vote.lua
-- 1: granted, the block begins as proposed, and no other process waits
-- {first number, other process waits (1 or 0)}: granted
-- what held.lua says: another owner has the lock
if overflow then
  return overflow
end
ttl, waits_at = ARGV[2], KEYS[3]
-- The first write, so that every error comes before anything is done. What follows up to held.lua is for
-- locks that others have: to make functions costs time.
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then
  local value = redis.pcall('GET', KEYS[1])
