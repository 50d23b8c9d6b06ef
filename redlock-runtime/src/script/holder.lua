-- A lock that is shared is a sorted set of its owners, by when the part of each ends, in ms since 1970.

-- What a command says of that set; nothing if the lock is of another type.
local function of_set(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    -- Any other error ends the script.
    return not string.find(reply.err, 'WRONGTYPE') and redis.call(...) or nil
  end
  return reply
end

-- The owner whose part ends last, and when; empty if there is none.
local function last_reader()
  return of_set('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES') or {}
end

-- Who has the lock in which `value` was read, as replies name it: an owner, 'shared', or '' for anything else.
local function holder_of(value)
  if type(value) == 'string' then
    return #value == 36 and value or ''
  end
  local last = last_reader()
  local is_owner = #last == 2 and #last[1] == 36 and not string.find(last[1], '[^%x-]')
  return is_owner and not string.find(last[2], '%D') and 'shared' or ''
end
