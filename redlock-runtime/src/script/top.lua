-- KEYS: node
-- The highest counter of all stripes, or the floor.
local fields = redis.call('HGETALL', KEYS[1])
local top = 0
for i = 1, #fields, 2 do
  if fields[i] == 'floor' or tonumber(fields[i]) then
    top = math.max(top, tonumber(fields[i + 1]))
  end
end
return top
