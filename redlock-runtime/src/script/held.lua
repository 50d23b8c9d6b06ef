-- What acquire.lua, put_back.lua and their like say of a lock that another owner has.
local function held(holder)
  if readers_of(holder) then
    holder = 'shared'
  elseif type(holder) ~= 'string' or #holder ~= 36 then
    holder = ''
  end
  return {redis.call('PTTL', KEYS[1]), holder}
end
