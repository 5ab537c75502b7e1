-- The table `wrk`: what scripts of wrk and wrk2 find there. Rust sets scheme, host, port, path, time_us, lookup and connect.

-- Scripts print before and after the result: nothing may stay behind in a buffer of C.
io.stdout:setvbuf("no")

-- Header names keep the case in which they were written, and are found in any.
local function same_name(headers, name)
   local wanted = tostring(name):lower()
   for known in pairs(headers) do
      if tostring(known):lower() == wanted then
         return known
      end
   end
end

local header_names = {
   __index = function(headers, name)
      local known = type(name) == "string" and same_name(headers, name)
      return known and rawget(headers, known) or nil
   end,
   __newindex = function(headers, name, value)
      rawset(headers, same_name(headers, name) or name, value)
   end,
}

wrk = {
   scheme = "http",
   host = "localhost",
   port = nil,
   method = "GET",
   path = "/",
   headers = setmetatable({}, header_names),
   body = nil,
   thread = nil,
}

function wrk.resolve(host, service)
   local reachable = {}
   for _, addr in ipairs(wrk.lookup(host, service)) do
      if wrk.connect(addr) then
         reachable[#reachable + 1] = addr
      end
   end
   wrk.addrs = reachable
end

function wrk.setup(thread)
   thread.addr = wrk.addrs[1]
   if type(setup) == "function" then
      setup(thread)
   end
end

-- Scripts for wrk 3 call `wrk.init` from their own `init`.
local is_in_init = false

function wrk.init(args)
   if not wrk.headers["Host"] then
      local host = wrk.host
      if host:find(":", 1, true) then
         host = "[" .. host .. "]"
      end
      wrk.headers["Host"] = wrk.port and host .. ":" .. wrk.port or host
   end
   if type(init) == "function" and not is_in_init then
      is_in_init = true
      init(args)
      is_in_init = false
   end
   local fixed = wrk.format()
   wrk.request = function()
      return fixed
   end
end

function wrk.format(method, path, headers, body)
   headers = headers or wrk.headers
   body = body or wrk.body
   local lines = { (method or wrk.method) .. " " .. (path or wrk.path) .. " HTTP/1.1" }
   local has_host = false
   if type(body) == "number" then
      body = tostring(body)
   end
   for name, value in pairs(headers) do
      name = tostring(name) -- A list of headers has numbers for names, which wrk sends too.
      local lower = name:lower()
      has_host = has_host or lower == "host"
      if lower ~= "content-length" then
         lines[#lines + 1] = name .. ": " .. tostring(value)
      end
   end
   if not has_host and wrk.headers["Host"] then
      lines[#lines + 1] = "Host: " .. wrk.headers["Host"]
   end
   if body then
      lines[#lines + 1] = "Content-Length: " .. #body
   end
   lines[#lines + 1] = ""
   lines[#lines + 1] = body or ""
   return table.concat(lines, "\r\n")
end
