  -- How the block ends that the script before has begun, and in which it has read `value` from the lock: another owner
  -- has it.
  -- {remaining ms or -1 if it never expires, what holder.lua says}, and with a ticket what acquire_in_order.lua adds
  return {redis.call('PTTL', KEYS[1]), holder_of(value), unpack(standing or {})}
end
