-- Which slot of a lock with permits is free for a process, in the order of a queue. It is advice, and this node's: all
-- nodes are asked for the slot then.
-- KEYS: line, with which the names of the slots begin, queue
-- ARGV: those of queue.lua; the script's own are how many permits there are, the slot to begin with, 1 if the caller
--   needs several of them, else 0, and nothing
-- slot: it is free, and is left to the process for a moment
-- {remaining ms of the slot that ends first, -1 if none ever does, -2 if some are free but not for this process; then
--   how many are ahead, and their grace together; and 1 if the line had no key, or it has expired: nobody who has read
--   it before is told of a release, else 0; and how many slots there are for each process, 0 if another one needs
--   several}
-- error: the server cannot write, and keeps no queue
local permits, start = tonumber(ARGV[2]), tonumber(ARGV[3])
local names = {}
for slot = 1, permits do
  names[slot] = KEYS[1] .. slot - 1
end
local held = redis.call('MGET', unpack(names))

local slots = {}
for i = 0, permits - 1 do
  local slot = (start + i) % permits
  if not held[slot + 1] and not promised[slot] then
    slots[#slots + 1] = slot
  end
end
local own = slots[1]
if own and (#slots > #ahead or is_next()) then
  places[process] = nil
  if #slots <= #ahead then
    pass()
  end
  keep_place(false, false)
  local lasts = math.min(math.max(ARGV[10], 1), 40)
  redis.pcall('HSET', queue, own, string.format('%.0f', now + lasts))
  redis.pcall('PEXPIRE', queue, 1000)
  return own
end

mode = ARGV[4] == '1' and 'x' or 's'
keep_place(true, own)
-- Who reads it is told when a slot is released.
local is_new = ARGV[9] ~= '0' and redis.pcall('SET', KEYS[1], '1', 'NX', 'PX', 10000)
if is_new and is_new.err then
  -- Who waits would read at once that there is no key, and ask again and again.
  return is_new
end
local remaining = own and -2 or -1
if not own then
  for slot, to in pairs(promised) do
    if slot < permits and (remaining < 0 or to - now < remaining) then
      remaining = to - now
    end
  end
  for slot = 1, remaining < 0 and permits or 0 do
    local left = redis.call('PTTL', names[slot])
    if left >= 0 and (remaining < 0 or left < remaining) then
      remaining = left
    end
  end
end
-- Each process that has slots or waits is to have its share.
local known, processes, share = {[process] = true}, 1, nil
for _, value in ipairs(held) do
  if value then
    -- What is no owner's counts as one process.
    local is_owner = #value == 36 and string.find(value, '^[%da-f]+-[%da-f%-]+-[%da-f]+$')
    local holder = is_owner and string.sub(value, 1, 18) or ''
    processes = processes + (known[holder] and 0 or 1)
    known[holder] = true
  end
end
for other, place in pairs(places) do
  processes = processes + (known[other] and 0 or 1)
  share = share or other ~= process and place.how == 'x' and 0
end
share = share or math.floor(permits / processes)
return {remaining, #ahead, grace, is_new and 1 or 0, share}
