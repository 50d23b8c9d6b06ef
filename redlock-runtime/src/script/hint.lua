-- Leaves a waiter hint under a lock that another owner has.
local function leave_hint(holder)
  local here = redis.call('TIME')[1] .. ' ' .. ARGV[7] .. ' '
  local hint = here .. string.sub(ARGV[1], 1, 18) .. (shares and ' shares' or '')
  local old = node[3] or ''
  local process, how = string.match(string.sub(old, #here + 1), '^(%S+)(.*)$')
  local is_here = string.sub(old, 1, #here) == here and (how == '' or shares)
  local names_holder = process == string.sub(holder, 1, 18)
  -- Each second one of those who wait writes it; not the holder's process, which would ignore it.
  if old ~= hint and (names_holder or not is_here) then
    redis.pcall('HSET', KEYS[2], waiter_field, hint)
  end
end
