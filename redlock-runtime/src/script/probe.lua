-- The record: see `reply` in record.lua.
return reply(node)
