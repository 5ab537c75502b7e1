-- Writes of random keys that depend on what is there: ladoga bench -s bench/wrk/conditional.lua URL -- KIND KEYS SEED [REPLICAS]
-- KIND: plain (PUT of 100 B), if-match (the same with `If-Match: *`), increment (POST).

local kind, count, query

function init(args)
   kind, count = args[1], tonumber(args[2])
   math.randomseed(tonumber(args[3]))
   query = args[4] and ("&replicas=" .. args[4]) or ""
   wrk.body = string.rep("v", 100)
   if kind == "if-match" then wrk.headers["If-Match"] = "*" end
end

function request()
   local key = math.random(count) - 1
   if kind == "increment" then
      return wrk.format("POST", string.format("/v0/entity?id=number:%d%s&increment=1", key, query), nil, "")
   end
   return wrk.format("PUT", string.format("/v0/entity?id=key:%d%s", key, query))
end
