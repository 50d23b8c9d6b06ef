-- What the scripts of those that share a lock have in common, behind readers.lua.
-- The readers; the owner alone if it has had the lock alone and shares it from now on, and that it was so.
local function readers_with(owner, value)
  if value ~= owner then
    return readers_of(value), false
  end
  return {{owner, now + math.max(redis.call('PTTL', KEYS[1]), 1)}}, true
end

-- When a reader's part ends.
local function end_of(readers, reader)
  for _, one in ipairs(readers or {}) do
    if one[1] == reader then
      return one[2]
    end
  end
end

-- Writes the list with this reader, or without it if its part has no end. Those that have expired go
-- with it, and with the last one the lock.
local function set_reader(readers, reader, ends)
  local list, last = {'shared'}, ends or 0
  for _, one in ipairs(readers or {}) do
    if one[1] ~= reader and one[2] > now then
      list[#list + 1] = string.format('%s@%016.0f', one[1], one[2])
      last = math.max(last, one[2])
    end
  end
  if ends then
    list[#list + 1] = string.format('%s@%016.0f', reader, ends)
  end
  if #list == 1 then
    redis.call('DEL', KEYS[1])
  else
    if end_of(readers, reader) then
      -- Never refused for want of memory, and what a script writes after its first write is not either.
      redis.call('PEXPIRE', KEYS[1], string.format('%.0f', last - now))
    end
    redis.call('SET', KEYS[1], table.concat(list, ' '), 'PXAT', string.format('%.0f', last))
  end
end
