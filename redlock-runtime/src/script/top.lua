-- KEYS: fence, node
-- The highest counter of all stripes, or the floor.
local top = tonumber(redis.call('HGET', KEYS[2], 'floor') or '0')
for _, counter in ipairs(redis.call('HVALS', KEYS[1])) do
  if tonumber(counter) > top then top = tonumber(counter) end
end
return top
