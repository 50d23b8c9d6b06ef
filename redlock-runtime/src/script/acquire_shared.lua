-- ARGV and replies: as of acquire.lua
shares = true
if overflow then
  return overflow
end
ttl = ARGV[2]
local value = redis.pcall('GET', KEYS[1])
local readers = readers_of(value)
local own = end_of(readers, ARGV[1])
local reads = own and own > now
-- A process that waits to have the lock alone must not wait for ever for the last reader. One that reads
-- already has asked long ago, and must not shorten its own time.
if value and (not readers or reads or has_waiter()) then
  local reply = held(value)
  if ARGV[8] == '1' and not readers then
    leave_hint(reply[2])
  end
  return reply
end
undo = function()
  set_reader(readers, ARGV[1])
end
set_reader(readers, ARGV[1], now + ttl)
