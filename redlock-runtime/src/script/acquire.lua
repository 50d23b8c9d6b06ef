-- ARGV, behind those of vote.lua: waits (1 or 0)
-- 1: granted, the block begins as proposed, and no other process waits
-- {first number, other process waits (1 or 0)}: granted
-- {remaining ms or -1 if it never expires, owner, 'shared' or ''}: held; with a third number if the lock is
--   fair: see queue.lua
if overflow then
  return overflow
end
ttl = ARGV[2]
-- The first write, so that every error comes before anything is done.
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then
  local reply = held(redis.pcall('GET', KEYS[1]))
  if ARGV[8] == '1' then
    leave_hint(reply[2])
  end
  reply[3] = ahead
  return reply
end
-- The process waits no more, and must not stop readers that come after it.
local own = ARGV[7] .. ' ' .. string.sub(ARGV[1], 1, 18)
if node[3] and string.match(node[3], '^%d+ (%d+ %S+)') == own then
  redis.pcall('HDEL', KEYS[2], waiter_field)
  node[3] = false
end
