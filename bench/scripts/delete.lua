-- One key after the other, again from the first after the last: wrk -t1 -c4 -d10s -s bench/scripts/delete.lua URL -- [KEYS]
local keys
local number = 0

function init(args)
   keys = tonumber(args[1] or 1000000)
end

function request()
   local key = number % keys
   number = number + 1
   return wrk.format("DELETE", ("/v0/entity?id=key%d"):format(key))
end
