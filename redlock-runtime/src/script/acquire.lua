-- KEYS: lock   ARGV: owner, ttl in ms
-- "OK": granted | remaining time of the present holder's key in ms, -1 if it never expires
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.status_reply('OK')
end
return redis.call('PTTL', KEYS[1])
