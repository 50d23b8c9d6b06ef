-- How the scripts that begin with vote.lua end, once the lock is the owner's.
local kept
if first ~= '' then
  kept = redis.pcall('HSET', KEYS[2], ARGV[4], last)
end
-- A proposal is a wall clock, too. While it is below the end of the period there is no need to look
-- at the time.
local is_within = first ~= '' and ARGV[5] - longest_until * 1000 < 0
if type(kept) ~= 'table' and not (is_within and ttl - longest <= 0) then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if now < longest_until then
    kept = redis.pcall('HSET', KEYS[2], 'longest', string.format('%.0f', math.max(longest, ttl)))
  else
    local period = tonumber(redis.call('HGET', KEYS[2], 'max_ttl') or '') or 1e12
    -- However long ago the period ended: votes since then may not have been noted.
    kept = redis.pcall('HSET', KEYS[2], 'longest', ttl,
      'longest_before', string.format('%.0f', longest),
      'longest_until', string.format('%.0f', now + period))
  end
end
if type(kept) == 'table' then
  -- A user who may not write the hash must not leave a key behind.
  if not remaining then
    if undo then
      undo()
    else
      redis.call('DEL', KEYS[1])
    end
  end
  return kept
end
-- Others have places, or had them a moment ago. There is no queue in the usual case.
local places = waits_at and redis.pcall('HGETALL', waits_at) or {}
for i = 1, #places, 2 do
  is_waited_for = is_waited_for or #places[i] == 18 and places[i] ~= string.sub(ARGV[1], 1, 18)
end
if not remaining and first == ARGV[5] and not is_waited_for then
  return 1
end
return {tonumber(first) or 0, is_waited_for and 1 or 0, remaining}
