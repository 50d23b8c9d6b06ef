-- ARGV: process or '', loss, beside a marker (1 or 0), longest ttl of the fleet in ms
-- The record: see `reply` in record.lua.
-- An admission beside a loss was made by a client that only assumed, and counts for such clients.
local stands = names(node, ARGV[1])
if stands and not node.loss then
  return reply(node)
end
local beside_marker = ARGV[3] == '1'
if not node.loss then
  -- What may have taken keys away since the process was started. If the counts have been reset, or if
  -- it has been a replica, that is not known.
  local counts = info('commandstats')
  local is_unflushed = counts ~= ''
    and string.find(info('replication'), '\nrole:master.*\nmaster_replid2:0+\r')
  -- Redis 6.2 counts all of CONFIG together, and each client asks it something.
  for _, name in ipairs({'flushall', 'flushdb', 'swapdb', 'debug', 'config', 'config|resetstat'}) do
    if string.find(counts, 'cmdstat_' .. name .. ':', 1, true) then
      is_unflushed = false
    end
  end
  -- Its own marker, of another process, tells as well that this is no first start. Without its own it
  -- may have been deleted, if others have one.
  local had_marker = node.admission
  redis.call('HSET', KEYS[1], 'about', about, 'format', '1', 'loss', ARGV[2], 'loss_server', process,
    'loss_begin', string.format('%.0f', now),
    'loss_beside_marker', (beside_marker or had_marker) and '1' or '0',
    'loss_unflushed', is_unflushed and (had_marker or not beside_marker) and '1' or '0',
    'max_ttl', node.max_ttl or ARGV[4])
  redis.call('HDEL', KEYS[1], 'loss_first_start')
elseif beside_marker then
  redis.call('HSET', KEYS[1], 'loss_beside_marker', '1')
end
if not stands then
  redis.call('HDEL', KEYS[1], 'admission', 'server', 'durable',
    'longest', 'longest_before', 'longest_until')
end
return reply(read())
