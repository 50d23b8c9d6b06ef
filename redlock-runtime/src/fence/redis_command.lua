-- KEYS[2..]: the command's keys   ARGV[2]: its name   ARGV[3..]: what follows its keys
local words = {ARGV[2]}
for i = 2, #KEYS do words[#words + 1] = KEYS[i] end
for i = 3, #ARGV do words[#words + 1] = ARGV[i] end
return redis.call(unpack(words))
