-- A lock that is shared is a list of its readers: 'shared', and for each owner ' <owner>@<ms since 1970,
-- 16 digits>', when its part in it ends.

-- The owners with their ends; nothing if the lock is something else.
local function readers_of(value)
  if type(value) ~= 'string' or string.sub(value, 1, 7) ~= 'shared ' or (#value - 6) % 54 ~= 0 then
    return nil
  end
  local readers = {}
  for at = 7, #value, 54 do
    local owner, ends = string.match(value, '^ ([%x-]+)@(%d+)', at)
    if not ends or #owner ~= 36 or #ends ~= 16 then
      return nil
    end
    readers[#readers + 1] = {owner, ends + 0}
  end
  return readers
end
