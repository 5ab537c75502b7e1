-- A limited set of keys: wrk -t1 -c4 -d10s -s bench/scripts/put-overwrite.lua URL -- [KEYS]
local keys

function init(args)
   keys = tonumber(args[1] or 1000)
end

function request()
   local key = math.random(keys) - 1
   return wrk.format("PUT", "/v0/entity?id=key" .. key, nil, "value" .. key)
end
