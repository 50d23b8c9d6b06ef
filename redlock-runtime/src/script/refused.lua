  -- How acquire.lua goes on.
  local reply = held(redis.pcall('GET', KEYS[1]))
  if ARGV[8] == '1' then
    leave_hint(reply[2])
  end
  reply[3] = ahead
  return reply
end
-- The process waits no more, and must not stop readers that come after it.
if node[3] and string.match(node[3], '^%d+ (%d+ %S+)') == ARGV[7] .. ' ' .. string.sub(ARGV[1], 1, 18) then
  redis.pcall('HDEL', KEYS[2], waiter_field)
  node[3] = false
end
