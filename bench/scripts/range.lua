-- All keys with one prefix, about a hundred: wrk -t1 -c4 -d10s -s bench/scripts/range.lua URL -- [KEYS]
local first, last

function init(args)
   last = math.max(math.floor(tonumber(args[1] or 1000000) / 100), 1)
   first = last >= 10 and last / 10 or 0 -- Prefixes of one length only.
end

function request()
   local prefix = math.floor(first + math.random() * (last - first))
   -- `:` comes after `9`.
   return wrk.format("GET", ("/v0/entities?start=key%d&end=key%d:"):format(prefix, prefix))
end
