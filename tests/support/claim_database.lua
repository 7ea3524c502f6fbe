-- Takes the selected database for one test if nobody else uses it.
-- Atomic, because several test runs may look for an empty database at the same time.
--
-- KEYS[1]  marker of a taken database; its value is the time of the claim
-- ARGV[1]  seconds after which a marker is the leftover of a run that was killed
-- returns  1 when taken, 0 when somebody's data or a younger marker is there
local now = tonumber(redis.call('TIME')[1])
local claimed = tonumber(redis.call('GET', KEYS[1]) or 'nil')
if claimed and now - claimed > tonumber(ARGV[1]) then
  redis.call('FLUSHDB')
end
if redis.call('DBSIZE') > 0 then
  return 0
end
redis.call('SET', KEYS[1], now)
return 1
