-- ARGV, behind those of vote.lua: waits (1 or 0)
-- 1: granted, the block begins as proposed, and no other process waits
-- {first number, other process waits (1 or 0)}: granted
-- {remaining ms or -1 if it never expires, owner or ''}: held; with a third number if the lock is fair: see
--   queue.lua
if overflow then
  return overflow
end
ttl = ARGV[2]
-- The first write, so that every error comes before anything is done.
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then
  local holder = redis.pcall('GET', KEYS[1])
  if type(holder) ~= 'string' or #holder ~= 36 then
    holder = ''
  end
  if ARGV[8] == '1' then
    local here = redis.call('TIME')[1] .. ' ' .. ARGV[7] .. ' '
    local hint = here .. string.sub(ARGV[1], 1, 18)
    local old = node[3] or ''
    local is_here = string.sub(old, 1, #here) == here
    local names_holder = string.sub(old, #here + 1) == string.sub(holder, 1, 18)
    -- Each second one of those who wait writes it; not the holder's process, which would ignore it.
    if old ~= hint and (names_holder or not is_here) then
      redis.pcall('HSET', KEYS[2], waiter_field, hint)
    end
  end
  return {redis.call('PTTL', KEYS[1]), holder, ahead}
end
