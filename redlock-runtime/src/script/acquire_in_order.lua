-- What acquire.lua and acquire_shared.lua do, for a process with a ticket: in the order of a queue. It is advice, and
-- this node's: a grant of one node alone gives no client the lock.
-- KEYS and ARGV: those of vote.lua and of queue.lua
-- 1 or {first number, other process waits (1 or 0)}: granted, as by acquire.lua
-- {as of held.lua; or -2 and '': the lock is free, but not for this one; then how many are ahead, their grace
--   together as far as it is not over (if there are none that of the holder's place)}
-- error: the server cannot write, and keeps no queue
if overflow then
  return overflow
end
local is_shared = value and mode == 's' and holder_of(value) == 'shared'
local own = is_shared and end_of(ARGV[1])
local is_granted
if value then
  -- One that waits to have the lock alone waits for the readers, and is not passed for that. One that reads
  -- already has asked long ago, and must not shorten its own time.
  is_granted = is_shared and not (own and own > now) and #ahead == 0
else
  is_granted = is_next()
end

local keeps_place = true
if is_granted then
  ttl = ARGV[2]
  -- The first write, so that every error comes before anything is done.
  if mode == 's' then
    set_reader(ARGV[1], now + ttl, own, value)
  else
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
  end
  places[process] = nil
  pass()
  for _, place in pairs(places) do
    is_waited_for = is_waited_for or place.excludes
  end
  -- Other nodes may refuse one that is to have the lock alone. Its place counts again once the lock is gone.
  keeps_place = ARGV[12] == '1' and mode == 'x'
end

local refused = keep_place(keeps_place, not value and not is_granted)
if not is_granted then
  if refused then
    return refused
  end
  standing = {#ahead, grace}
