-- New keys, one after the other: wrk -t1 -c4 -d10s -s bench/scripts/put.lua URL
-- Each thread has numbers of its own.
local threads = 0

function setup(thread)
   thread:set("first", threads)
   threads = threads + 1
end

local number = 0

function request()
   local key = first * 1e9 + number
   number = number + 1
   return wrk.format("PUT", ("/v0/entity?id=key%d"):format(key), nil, ("value%d"):format(key))
end
