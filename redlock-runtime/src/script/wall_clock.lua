-- An acquisition proposes a wall clock, which may be wrong.
local is_wall_clock = true
