-- ARGV: process or '', loss, beside a marker (1 or 0), longest ttl of the fleet in ms
-- The record: see `reply` in record.lua.
if names(node, ARGV[1]) then
  return reply(node)
end
if not node.loss then
  -- What may have taken keys away since the process was started. If the counts have been reset,
  -- that is not known.
  local counts = info('commandstats')
  local is_unflushed = counts ~= ''
  for _, name in ipairs({
    'flushall', 'flushdb', 'swapdb', 'debug', 'replicaof', 'slaveof', 'config|resetstat',
  }) do
    if string.find(counts, 'cmdstat_' .. name .. ':', 1, true) then
      is_unflushed = false
    end
  end
  -- Its own marker, of another process, tells as well that this is no first start.
  local beside_marker = (ARGV[3] == '1' or node.admission) and '1' or '0'
  redis.call('HSET', KEYS[1], 'about', about, 'loss', ARGV[2], 'loss_server', process,
    'loss_begin', string.format('%.0f', now), 'loss_beside_marker', beside_marker,
    'loss_unflushed', is_unflushed and '1' or '0', 'max_ttl', node.max_ttl or ARGV[4])
  redis.call('HDEL', KEYS[1], 'loss_first_start')
end
redis.call('HDEL', KEYS[1], 'admission', 'server', 'durable',
  'longest', 'longest_before', 'longest_until')
return reply(read())
