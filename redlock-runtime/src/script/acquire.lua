-- ARGV, behind those of vote.lua: waits (1 or 0)
-- 1: granted, the block begins as proposed, and no other process waits
-- {first number, other process waits (1 or 0)}: granted
-- {remaining ms or -1 if it never expires, owner, 'shared' or ''}: held; with a third number if the lock is
--   fair: see queue.lua
if overflow then
  return overflow
end
ttl = ARGV[2]
-- The first write, so that every error comes before anything is done. What follows up to refused.lua is for
-- locks that others have: to make functions costs time.
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then
