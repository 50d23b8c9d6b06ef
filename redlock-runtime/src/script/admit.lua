-- ARGV: process or '', evidence, loss or admission that it speaks of, how many ms must have passed, new
--   admission, floor, durable (1 or 0), longest ttl of the fleet in ms, wall clock of the client in us
-- the admission that stands: it votes
-- otherwise the record: see `reply` in record.lua
-- Beside a loss it was made by a client that only assumed: see report_loss.lua.
local is_assumed = ARGV[2] == 'assumed'
local stands = names(node, ARGV[1]) and node.admission
if stands and (is_assumed or not node.loss) then
  return stands
end
if ARGV[6] - 4503599627370496 > 0 then
  return redis.error_reply('REDLOCK counter beyond 2^52 or no number: floor')
end
local is_good = false
if ARGV[2] == 'durable' then
  is_good = node.admission == ARGV[3]
elseif node.loss == ARGV[3] then
  local wait = tonumber(ARGV[4])
  if ARGV[2] == 'first_start' then
    wait = math.max(wait, tonumber(node.loss_first_start or '0'))
    node.loss_first_start = string.format('%.0f', wait)
    redis.call('HSET', KEYS[1], 'loss_first_start', node.loss_first_start)
  end
  is_good = now >= node.loss_begin + wait
end
if not is_good then
  return reply(node)
end
if ARGV[2] ~= 'durable' then
  -- Its counters start again, above all of its own and those of the other nodes. A single one that is wrong must
  -- not use up the numbers of all: no sound one is an hour ahead of both clocks. In whole seconds, as for votes.
  local latest = math.max(ARGV[9], time[1] * 1000000) + 3600000000
  node.floor = string.format('%.0f', math.min(math.max(node.top, ARGV[6]), latest))
  redis.call('HSET', KEYS[1], 'floor', node.floor)
  for _, field in ipairs(node.stripes) do
    redis.call('HDEL', KEYS[1], field)
  end
  if not stands then
    redis.call('HDEL', KEYS[1], 'longest', 'longest_before', 'longest_until')
  end
end
local admission = stands or ARGV[5]
redis.call('HSET', KEYS[1], 'about', about, 'format', '1', 'admission', admission, 'server', ARGV[1],
  'durable', ARGV[7], 'max_ttl', node.max_ttl or ARGV[8])
if not is_assumed then
  redis.call('HDEL', KEYS[1], 'loss', 'loss_server', 'loss_begin', 'loss_beside_marker',
    'loss_unflushed', 'loss_first_start')
end
return admission
