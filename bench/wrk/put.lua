-- PUT of random keys: wrk -t1 -c64 -d5s -s bench/wrk/put.lua URL -- RECORDS VALUE_BYTES
-- Every request is built before the clock starts, so that a request costs wrk one random number.

local requests, count, random = {}, 0, math.random

-- Printable characters that do not compress; each value is a window into them.
local function noise(bytes)
   local characters = {}
   for i = 1, bytes do
      characters[i] = string.char(random(33, 126))
   end
   return table.concat(characters)
end

function init(args)
   count = tonumber(args[1])
   local value_bytes = tonumber(args[2])
   math.randomseed(tonumber(args[3] or 1))
   local pool_bytes = 1024 * 1024
   local pool = noise(pool_bytes + value_bytes)
   local head = "PUT /v0/entity?id=key:%012d HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\nContent-Length: "
      .. value_bytes .. "\r\n\r\n"
   for i = 1, count do
      local from = random(pool_bytes)
      requests[i] = string.format(head, i - 1) .. string.sub(pool, from, from + value_bytes - 1)
   end
   collectgarbage()
   collectgarbage("stop") -- Nothing is allocated from here on, and a collection would walk every request.
end

function request()
   return requests[random(count)]
end
