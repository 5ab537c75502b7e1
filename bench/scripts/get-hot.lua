-- A limited set of keys: wrk -t1 -c4 -d10s -s bench/scripts/get-hot.lua URL -- [KEYS]
local keys

function init(args)
   keys = tonumber(args[1] or 1000)
end

function request()
   return wrk.format("GET", "/v0/entity?id=key" .. math.random(keys) - 1)
end
