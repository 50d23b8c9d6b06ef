  -- How the block ends that the script before has begun, and in which it has read `value` from the lock: another owner
  -- has it.
  -- {remaining ms or -1 if it never expires, owner, 'shared' or ''}, and with a ticket what queue.lua adds
  if readers_of(value) then
    value = 'shared'
  elseif type(value) ~= 'string' or #value ~= 36 then
    value = ''
  end
  return {redis.call('PTTL', KEYS[1]), value, unpack(standing or {})}
end
