-- A refresh proposes by numbers that nodes have reported.
local is_wall_clock = false
