-- How probe.lua, report_loss.lua and admit.lua begin.
-- KEYS: node
-- error REDLOCK: what should be a counter is none; nothing was written

-- For people who look at the hash. So long that it is kept as a table at once, in which a field is found
-- faster than in a list.
local about = 'What redlock knows of this node: that it votes, and its counters. '
  .. 'Without this key it must not vote until all locks that it may have had have expired.'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A section of INFO; nothing if the user may not read it.
local function info(section)
  local lines = redis.pcall('INFO', section)
  return type(lines) == 'string' and lines or ''
end
local process = string.match(info('server'), '\nrun_id:(%w+)') or ''

-- What another release has written says nothing to this one.
local format = redis.call('HGET', KEYS[1], 'format')
if format and format ~= '1' then
  return {format}
end

-- The fields by their names, but for the counters, the highest of which is `top`, and what earlier
-- releases have noted of processes that wait: of both the names in `stripes`.
local function read()
  local fields = redis.call('HGETALL', KEYS[1])
  local node, top, stripes = {}, 0, {}
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    local is_stripe = string.find(field, '^%d+$')
    if is_stripe or field == 'floor' then
      local counter = tonumber(value)
      if not (counter and counter >= 0 and counter <= 4503599627370496) then
        return nil, redis.error_reply('REDLOCK counter beyond 2^52 or no number: ' .. field)
      end
      top = math.max(top, counter)
    end
    if is_stripe or string.find(field, '^waiter ') then
      stripes[#stripes + 1] = field
    else
      node[field] = value
    end
  end
  node.top = string.format('%.0f', top)
  node.stripes = stripes
  -- A loss that another process noted has come back with old data: it says nothing of what was
  -- forgotten since.
  local noted = node.loss_server or ''
  if noted ~= '' and process ~= '' and noted ~= process then
    node.loss = nil
  end
  return node
end

-- The marker names this process, as far as can be told.
local function names(node, server)
  local marked = node.server or ''
  return node.admission and (marked == '' or server == '' or marked == server)
end

local function reply(node)
  local longest = tonumber(node.longest or '0')
  if now < tonumber(node.longest_until or '0') then
    longest = math.max(longest, tonumber(node.longest_before or '0'))
  end
  local age = node.loss and math.max(0, now - node.loss_begin) or 0
  return {
    node.admission or '', node.server or '', node.durable or '',
    node.loss or '', string.format('%.0f', age), node.loss_beside_marker or '',
    node.loss_unflushed or '', node.loss_first_start or '',
    string.format('%.0f', longest), node.top, node.max_ttl or '',
  }
end

local node, broken = read()
if broken then
  return broken
end
