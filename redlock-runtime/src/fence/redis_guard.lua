-- KEYS[1]: the resource's token   ARGV[1]: the holder's token
local token, highest = tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[1]) or '0')
if token < highest then
  return redis.error_reply('STALEFENCE token ' .. ARGV[1] .. ' for ' .. KEYS[1])
end
if token > highest then
  redis.call('SET', KEYS[1], ARGV[1])
end
