//! What published scripts do with wrk's Lua interface, each in the few lines that matter.

use std::fs;
use std::process::Command;

use crate::command::bench;
use crate::scripts::{FOREVER, run};
use crate::server::{Manner, Server};
use crate::support::{Directory, Ladoga, skip_without};

/// Ends the run of every thread after its first answer.
const ONE_ANSWER: &str = "function response() wrk.thread:stop() end\n";

/// What one request looks like.
#[track_caller]
fn request_of(name: &str, script: &str) -> String {
    let (ran, server) = run(name, format!("{script}\n{ONE_ANSWER}"), &format!("{FOREVER} -t1 -c1"), "");
    assert_eq!(ran.code, 0, "{name}: {ran:?}");
    server.last_request()
}

/// Scripts that give out what they read from a file tell every thread how many there are, again and again. It hung.
#[test]
fn setup_reaches_the_threads_before_it() {
    let script = "local threads = {}
        function setup(thread)
           table.insert(threads, thread)
           for _, t in ipairs(threads) do t:set('count', #threads) end
           print('before', threads[1]:get('count'), threads[1]:get('started'))
        end
        function init() started = true end
        function request() return wrk.format('GET', '/of/' .. count) end
        function done() for _, t in ipairs(threads) do print('after', t:get('count')) end end";
    let (ran, server) = run("register", format!("{script}\n{ONE_ANSWER}"), &format!("{FOREVER} -t3 -c3"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.last_request().starts_with("GET /of/3 "), "{}", server.last_request());
    assert!(ran.out.contains("before\t1\tnil\nbefore\t2\ttrue\nbefore\t3\ttrue\n"), "{}", ran.out);
    assert_eq!(ran.out.matches("after\t3\n").count(), 3, "{}", ran.out);
}

#[test]
fn numbers_are_bodies_paths_and_headers() {
    let cases = [
        ("body", "wrk.method = 'PUT'\nwrk.body = 4217"),
        ("format", "function request() return wrk.format('PUT', '/v0/entity?id=' .. 7, nil, 4217) end"),
    ];
    for (name, script) in cases {
        let request = request_of(name, script);
        assert!(request.ends_with("\r\n\r\n4217"), "{request}");
        assert!(request.contains("\r\nContent-Length: 4\r\n"), "{request}");
    }
    let request = request_of("headers", "wrk.headers['X-Number'] = 5\nwrk.headers['x-number'] = 6");
    assert!(request.contains("\r\nX-Number: 6\r\n") && !request.contains("x-number"), "{request}");
    // As wrk sends them: the place in the list is the name.
    let list = "function request() return wrk.format('GET', '/', { 'X-A: 1', Host = 'h' }) end";
    let request = request_of("list", list);
    assert!(request.contains("\r\n1: X-A: 1\r\n") && request.contains("\r\nHost: h\r\n"), "{request}");
}

#[test]
fn the_time_of_day_is_there_in_microseconds() {
    let script = "local began = wrk.time_us()
        function request() return wrk.format('GET', ('/%d'):format(wrk.time_us() - began)) end
        function done() print('time', began > 1.7e15 and began < 1e16) end";
    let (ran, _server) = run("time", format!("{script}\n{ONE_ANSWER}"), &format!("{FOREVER} -t1 -c1"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("time\ttrue"), "{}", ran.out);
}

/// A script that has only so many requests returns nothing after them. The run goes on to its end, and reports.
#[test]
fn a_script_may_run_out_of_requests() {
    let script = "local n = 0
        function request() n = n + 1 if n <= 5 then return wrk.format('GET', '/' .. n) end end";
    for flags in ["-d1s -t2 -c4", "-d1s -t2 -c4 -R 200 -L"] {
        let (ran, server) = run("nil", script, flags, "");
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(server.requests(), 10, "{ran:?}");
        assert!(ran.out.contains("  10 requests in "), "{}", ran.out);
        assert!(!ran.err.contains("had no answer"), "nothing more was due: {}", ran.err);
    }
    // A thread for which there is nothing at all does nothing.
    let script = "local number = 0
        function setup(thread) number = number + 1 thread:set('own', number) end
        function request() if own == 1 then return wrk.format() end end";
    let (ran, server) = run("one", format!("{script}\n{ONE_ANSWER}"), "-d200ms -t2 -c2", "");
    assert!(ran.code == 0 && server.requests() > 0, "{ran:?}");
}

/// The script for pipelining that goes around calls `wrk.init` from its `init`, as wrk 3 wanted it. It called itself for ever.
#[test]
fn init_may_call_that_of_wrk() {
    let script = "init = function(args)
           wrk.init(args)
           local r = {}
           for i = 1, tonumber(args[1]) do r[i] = wrk.format(nil, '/' .. i) end
           req = table.concat(r)
        end
        request = function() return req end";
    let (ran, server) = run("wrk3", format!("{script}\n{ONE_ANSWER}"), &format!("{FOREVER} -t1 -c1"), "3");
    assert_eq!((ran.code, server.requests() >= 3), (0, true), "{ran:?}");
}

/// As those of `--workload ycsb-e`. One prefix in ten was shorter by a digit, and its range ten times as long.
#[test]
fn ranges_of_the_script_of_ycsb_have_ten_or_a_hundred_keys() {
    let script = "local make, found = request, {}
        function request()
           for _ = 1, 1000 do
              local prefix = make():match('start=key(%d+)')
              if prefix then found[#prefix] = true end
           end
           local lengths = {}
           for length in pairs(found) do lengths[#lengths + 1] = length end
           table.sort(lengths)
           return wrk.format('GET', '/' .. table.concat(lengths, ','))
        end";
    let ycsb = include_str!("../../bench/scripts/ycsb.lua");
    let script = format!("{ycsb}\n{script}\n{ONE_ANSWER}");
    let (ran, server) = run("ycsb", script, &format!("{FOREVER} -t1 -c1"), "e 10000");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.last_request().starts_with("GET /2,3 "), "{}", server.last_request());
}

#[test]
fn foreign_code_needs_its_flag() {
    let script = "local ffi = require('ffi')
        ffi.cdef('int getpid(void);')
        wrk.path = '/' .. (ffi.C.getpid() > 0 and 'native' or 'none')";
    let native = format!("{script}\n{ONE_ANSWER}");
    let (ran, _server) = run("safe", &native, &format!("{FOREVER} -t1 -c1"), "");
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--allow-native"), "{}", ran.err);
    let traced = format!("print(debug.traceback())\n{ONE_ANSWER}");
    let (ran, _server) = run("traced", &traced, &format!("{FOREVER} -t1 -c1"), "");
    assert_eq!((ran.code, ran.err.contains("debug and modules in C")), (2, true), "{ran:?}");
    let (ran, _server) = run("traced", &traced, &format!("{FOREVER} -t1 -c1 --allow-native"), "");
    assert_eq!((ran.code, ran.out.contains("stack traceback")), (0, true), "{ran:?}");
    let (ran, server) = run("native", &native, &format!("{FOREVER} -t1 -c1 --allow-native"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.last_request().starts_with("GET /native "), "{}", server.last_request());
}

#[test]
fn modules_in_c_are_loaded() {
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let code = "struct lua_State;
        void lua_pushstring(struct lua_State *, const char *);
        const char *luaL_checklstring(struct lua_State *, int, unsigned long *);
        int luaopen_native(struct lua_State *lua) { lua_pushstring(lua, luaL_checklstring(lua, 1, 0)); return 1; }";
    fs::write(path("native.c"), code).expect("a file");
    let words = ["-shared", "-fPIC", "-o", &path("native.so"), &path("native.c")];
    let Ok(compiled) = Command::new("cc").args(words).status() else {
        return skip_without("cc", "there is no compiler of C");
    };
    assert!(compiled.success(), "the module is compiled");
    let script = format!(
        "package.cpath = '{}/?.so;' .. package.cpath\nwrk.path = '/' .. require('native')\n{ONE_ANSWER}",
        directory.path().display()
    );
    let (ran, server) = run("module", &script, &format!("{FOREVER} -t1 -c1 --allow-native"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.last_request().starts_with("GET /native "), "{}", server.last_request());
    let (ran, _server) = run("module", &script, &format!("{FOREVER} -t1 -c1"), "");
    assert_eq!((ran.code, ran.err.contains("--allow-native")), (2, true), "{ran:?}");
}

/// Debian's packages of modules are found as by its wrk, without variables of the environment.
#[test]
fn modules_of_the_system_are_looked_for() {
    let script = "assert(package.path:find('/usr/share/lua/5.1/?.lua', 1, true), package.path)
        assert(package.cpath:find('-linux-gnu/lua/5.1/?.so', 1, true), package.cpath)
        wrk.path = '/found'";
    for flags in ["", "--allow-native"] {
        let flags = format!("{FOREVER} -t1 -c1 {flags}");
        let (ran, server) = run("modules", format!("{script}\n{ONE_ANSWER}"), &flags, "");
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(server.last_request().starts_with("GET /found "), "{}", server.last_request());
    }
}

#[test]
fn what_threads_collected_is_written_in_done() {
    let directory = Directory::new();
    let file = directory.path().join("report.csv").display().to_string();
    let script = format!(
        "local threads = {{}}
        function setup(thread) table.insert(threads, thread) end
        function init(args) ids, name = {{}}, os.getenv('HOME') and args[1] end
        function request() return wrk.format('GET', '/' .. #ids) end
        function response(status, headers, body)
           ids[#ids + 1] = {{ path = body, code = status, odd = bit.band(#ids, 1) }}
           if #ids == 3 then wrk.thread:stop() end
        end
        function done(summary, latency)
           local out = io.open('{file}', 'w')
           for number, thread in ipairs(threads) do
              for _, id in ipairs(thread:get('ids')) do
                 out:write(('%d,%s,%d,%d,%s\\n'):format(number, id.path, id.code, id.odd, thread:get('name')))
              end
           end
           out:close()
           for _, p in pairs({{ 50, 99, 99.999 }}) do print(('%g%%,%d'):format(p, latency:percentile(p))) end
           os.exit(summary.requests == 6 and 7 or 8)
        end"
    );
    let (ran, _server) = run("report", &script, &format!("{FOREVER} -t2 -c2"), "named");
    assert_eq!(ran.code, 7, "the exit code is the script's: {ran:?}");
    assert!(ran.out.contains("\n50%,") && ran.out.contains("\n99.999%,"), "{}", ran.out);
    let lines = fs::read_to_string(&file).expect("what done wrote");
    assert!(lines.starts_with("1,/0,200,0,named\n1,/1,200,1,named\n"), "{lines}");
    assert_eq!(lines.lines().count(), 6, "{lines}");
}

/// Threads that each have a server of their own, found by `wrk.lookup`.
#[test]
fn threads_are_spread_over_addresses() {
    let other = Server::start(Manner::Answer(200));
    let script = format!(
        "local addrs = nil
        function setup(thread)
           local append = function(host, port)
              for _, addr in ipairs(wrk.lookup(host, port)) do
                 if wrk.connect(addr) then addrs[#addrs + 1] = addr end
              end
           end
           if not addrs then
              addrs = {{}}
              append('127.0.0.1', wrk.port)
              append('127.0.0.1', {})
           end
           local index = 1 + (counter or 0) % #addrs
           counter = (counter or 0) + 1
           thread.addr = addrs[index]
        end
        {ONE_ANSWER}",
        other.address.port()
    );
    let (ran, server) = run("addresses", &script, &format!("{FOREVER} -t2 -c2"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.requests() > 0 && other.requests() > 0, "{ran:?}");
}

/// A token that a first answer brings is used from then on.
#[test]
fn an_answer_decides_the_next_requests() {
    let script = "token, path = nil, '/login'
        function request() return wrk.format('GET', path) end
        function response(status, headers, body)
           if token then wrk.thread:stop() return end
           token = headers['X-Test']
           path = '/with'
           wrk.headers['X-Token'] = token
        end";
    let (ran, server) = run("token", script, &format!("{FOREVER} -t1 -c1"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let request = server.last_request();
    assert!(request.starts_with("GET /with ") && request.contains("\r\nX-Token: yes\r\n"), "{request}");
}

#[test]
fn the_version_and_a_dash_of_a_text_program_are_understood() {
    let version = Ladoga::new(["--version"]).run().expect_success();
    for flag in ["-v", "--version"] {
        assert_eq!(bench(flag).out, version.text(), "ladoga-bench is another program");
    }
    let ran = bench("\u{2014}latency http://127.0.0.1:1");
    assert_eq!((ran.code, ran.err.contains("begins with - or --")), (2, true), "{ran:?}");
}
