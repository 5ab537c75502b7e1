-- A key is written and read soon after: wrk -t1 -c4 -d10s -s bench/scripts/put-get.lua URL -- [KEYS]
-- wrk does not tell which connection a request is for, so with several connections a read may overtake its write.
local keys, written

function init(args)
   keys = tonumber(args[1] or 1000000)
end

function request()
   if written then
      local key = written
      written = nil
      return wrk.format("GET", "/v0/entity?id=key" .. key)
   end
   written = math.random(keys) - 1
   return wrk.format("PUT", "/v0/entity?id=key" .. written, nil, "value" .. written)
end
