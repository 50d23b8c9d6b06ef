-- How acquire.lua, acquire_in_order.lua, extend.lua, put_back.lua and those for locks that are shared begin.
-- KEYS: lock, node, and what the script adds   ARGV: owner, ttl in ms, admission, stripe, first and last number of
--   the block that is proposed ('' for both if none is wanted), and what the script adds
-- -1: another admission stands, or none
-- error REDLOCK: there is no room for the block above the counter; nothing was written
local node = redis.pcall('HMGET', KEYS[2], 'admission', ARGV[4], 'longest', 'longest_until')
-- What is no hash names no admission.
if node.err and not string.find(node.err, 'WRONGTYPE') then
  return node
end
if node[1] ~= ARGV[3] then
  return -1
end
-- As text, as which they are kept and sent: making text of numbers is expensive.
local first, last = ARGV[5], ARGV[6]
local overflow
if first ~= '' then
  local before = tonumber(node[2] or redis.call('HGET', KEYS[2], 'floor') or '0')
  -- 2^52 - 2^40: clients believe no number above it.
  local is_counter = before and before >= 0 and before <= 4502500115742720
  local ahead = is_counter and first - before
  if is_counter and (ahead <= 0 or is_wall_clock and ahead > 5000000) then
    -- A clock far ahead must not use up the numbers of years. In whole seconds, so that nodes agree.
    local limit = is_wall_clock and (redis.call('TIME')[1] + 5) * 1000000 or 0
    first = math.max(before + 1, math.min(first, limit))
    -- Not tostring: it prints 1.79e+15.
    last = string.format('%.0f', first + (last - ARGV[5]))
  end
  if not is_counter or last - 4503599627370496 > 0 then
    local field = node[2] and ARGV[4] or 'floor'
    overflow = redis.error_reply('REDLOCK counter beyond 2^52 or no number: ' .. field)
  end
end
-- Numbers from here on, so that what is no number is an error before anything is written.
local longest, longest_until = (node[3] or 0) + 0, (node[4] or 0) + 0
-- For how long the key was set to live, if it was: the scripts say.
local ttl
-- How long it lived before, if it was the owner's.
local remaining
-- How the process stands in the queue, and whether others wait there.
local standing
local is_waited_for = false
-- Where to look for others that wait, if the lock is the owner's: what the script has not looked at itself.
local waits_at

-- Takes away what the script has written under the lock, where there was nothing of the owner's and more
-- than that is to be deleted.
local undo
