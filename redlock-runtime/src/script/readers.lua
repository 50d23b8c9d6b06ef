-- What the scripts of those that share a lock have in common, behind holder.lua.

-- When the owner's part ends; nothing if it has none.
local function end_of(owner)
  local ends = of_set('ZSCORE', KEYS[1], owner)
  return ends and ends + 0
end

-- The lock lives for as long as any owner has a part.
local function live_until(last)
  return redis.pcall('PEXPIRE', KEYS[1], string.format('%.0f', last - now))
end

local function remove_reader(owner)
  redis.call('ZREM', KEYS[1], owner)
  local last = last_reader()[2]
  if last then
    live_until(last)
  end
end

-- Gives the owner a part until then. `own` is when its part ends now, if it has one, and `others` if others may have.
local function set_reader(owner, ends, own, others)
  local last = math.max(others and last_reader()[2] or 0, ends)
  -- Never refused for want of memory, and what a script writes after its first write is not either.
  local lives = own and live_until(last)
  redis.call('ZADD', KEYS[1], string.format('%.0f', ends), owner)
  lives = lives or live_until(last)
  if type(lives) == 'table' then
    -- The user may not: the lock must not stay for ever.
    redis.call('ZREM', KEYS[1], owner)
    redis.call('PEXPIRE', KEYS[1], 1)
  end
  -- See vote.lua.
  undo = function()
    remove_reader(owner)
  end
  if others then
    -- Those that have ended only need memory.
    redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
  end
end
