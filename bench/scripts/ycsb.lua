-- YCSB's core workloads: wrk -t1 -c4 -d10s -s bench/scripts/ycsb.lua URL -- a|b|c|d|e|f [KEYS]
-- Keys are chosen by YCSB's zipfian distribution; in d the newest are the likeliest.
local THETA = 0.99
local WRITES = { a = 0.5, b = 0.05, c = 0, d = 0.05, e = 0.05, f = 0 }

local workload, keys, newest, modified
local zeta, eta, alpha

function init(args)
   workload = args[1] or "a"
   keys = tonumber(args[2] or 1000000)
   assert(WRITES[workload], "a workload is one of a, b, c, d, e, f")
   newest, zeta = keys - 1, 0
   for i = 1, keys do
      zeta = zeta + i ^ -THETA
   end
   alpha = 1 / (1 - THETA)
   eta = (1 - (2 / keys) ^ (1 - THETA)) / (1 - (1 + 0.5 ^ THETA) / zeta)
end

local function rank()
   local unit = math.random()
   local scaled = unit * zeta
   if scaled < 1 then
      return 0
   elseif scaled < 1 + 0.5 ^ THETA then
      return 1
   end
   return math.min(math.floor(keys * (eta * unit - eta + 1) ^ alpha), keys - 1)
end

local function choose()
   if workload == "d" then
      return math.max(newest - rank(), 0)
   end
   return (rank() * 2654435761 + 1013904223) % keys -- Spreads the likely ones over all keys.
end

local function get(key)
   return wrk.format("GET", ("/v0/entity?id=key%d"):format(key))
end

local function put(key)
   return wrk.format("PUT", ("/v0/entity?id=key%d"):format(key), nil, ("value%d"):format(key))
end

local function range()
   local records = math.random() < 0.4 and 100 or 10 -- 50 on average
   local last = math.max(math.floor(keys / records), 1)
   local first = last >= 10 and math.floor(last / 10) or 0 -- Prefixes of one length only.
   local prefix = first + choose() % (last - first)
   return wrk.format("GET", ("/v0/entities?start=key%d&end=key%d:"):format(prefix, prefix))
end

function request()
   if modified then
      local key = modified
      modified = nil
      return put(key)
   end
   if math.random() < WRITES[workload] then
      if workload == "d" or workload == "e" then
         newest = newest + 1
         return put(newest)
      end
      return put(choose())
   end
   if workload == "e" then
      return range()
   end
   local key = choose()
   if workload == "f" and math.random() < 0.5 then
      modified = key
   end
   return get(key)
end
