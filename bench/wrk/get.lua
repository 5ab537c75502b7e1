-- GET of random keys: wrk -t1 -c64 -d5s -s bench/wrk/get.lua URL -- RECORDS
-- Every request is built before the clock starts, so that a request costs wrk one random number.

local requests, count, random = {}, 0, math.random

function init(args)
   count = tonumber(args[1])
   math.randomseed(tonumber(args[2] or 1))
   local line = "GET /v0/entity?id=key:%012d HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n\r\n"
   for i = 1, count do
      requests[i] = string.format(line, i - 1)
   end
   collectgarbage()
   collectgarbage("stop") -- Nothing is allocated from here on, and a collection would walk every request.
end

function request()
   return requests[random(count)]
end
