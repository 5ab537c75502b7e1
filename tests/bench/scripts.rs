//! wrk's Lua interface.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;

use crate::command::{Ran, bench};
use crate::server::{Manner, Server};
use crate::support::{Directory, Ladoga};

/// Longer than any test runs: for scripts that end their run by themselves, however slow the machine is.
pub(crate) const FOREVER: &str = "-d1h";

pub(crate) fn run(name: &str, script: impl AsRef<[u8]>, flags: &str, arguments: &str) -> (Ran, Server) {
    let server = Server::start(Manner::Answer(200));
    let directory = Directory::new();
    let file = directory.path().join(format!("{name}.lua"));
    fs::write(&file, script.as_ref()).expect("a script");
    let ran = bench(&format!("{flags} -s {} {} -- {arguments}", file.display(), server.url()));
    (ran, server)
}

#[test]
fn a_script_of_settings_alone_changes_the_request() {
    let script =
        "wrk.method = 'POST'\nwrk.body = 'a=b'\nwrk.headers['Content-Type'] = 'text/x'\nwrk.path = '/p'\n";
    let (ran, server) = run("settings", script, "-d1s -t1 -c1 -R 50 -H X-A:b", "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let request = server.last_request();
    assert!(request.starts_with("POST /p HTTP/1.1\r\n") && request.ends_with("\r\n\r\na=b"), "{request}");
    for header in
        ["Content-Type: text/x", "X-A: b", "Content-Length: 3", &format!("Host: {}", server.address)]
    {
        assert!(request.contains(&format!("\r\n{header}\r\n")), "{header} in {request}");
    }
}

/// Lua takes bytes, and so does wrk: a comment in Latin-1.
#[test]
fn a_script_need_not_be_utf_8() {
    let (ran, server) = run("latin", b"-- gr\xfc\xdfe\nwrk.headers['X-A'] = 'b'\n", "-d1s -t1 -c1 -R 50", "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.last_request().contains("\r\nX-A: b\r\n"), "{}", server.last_request());
}

/// A path in Latin-1: the script got a replacement character.
#[test]
fn an_argument_need_not_be_utf_8() {
    let (server, directory) = (Server::start(Manner::Answer(200)), Directory::new());
    let file = directory.path().join("bytes.lua");
    let script = "function init(args) wrk.thread:stop() print(args[1]:byte(1, -1)) end";
    fs::write(&file, script).expect("a script");
    let line = format!("bench -t1 -c1 {FOREVER} -s {} {} --", file.display(), server.url());
    let words = line.split(' ').map(OsString::from);
    let ran = Ran::of(&Ladoga::new(words.chain([OsString::from_vec(b"gr\xfc".to_vec())])).run());
    assert!(ran.out.contains("103\t114\t252\n"), "{ran:?}");
}

/// Logs in once, as scripts for wrk do.
#[test]
fn a_script_that_takes_its_request_away_sends_that_of_the_command_line() {
    let script = "function request() return wrk.format('GET', '/login') end\n\
                  function response() request = nil end\n";
    let (ran, server) = run("login", script, "-d1s -t1 -c1 -R 50", "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(server.last_request().starts_with("GET / HTTP/1.1\r\n"), "{}", server.last_request());
}

#[test]
fn every_function_of_a_script_is_called() {
    let script = r#"
local threads = {}
local number = 1
function setup(thread)
   thread:set("id", number)
   thread:set("settings", { deep = { er = "x" } })
   table.insert(threads, thread)
   number = number + 1
end
function init(args)
   requests, responses, bodies, arg0, arg1, arg2 = 0, 0, 0, args[0], args[1], args[2]
   deep = settings.deep.er
end
function request()
   requests = requests + 1
   return wrk.format("GET", "/" .. requests)
end
function delay()
   return 5
end
function response(status, headers, body)
   if status == 200 and headers["X-Test"] == "yes" and body:sub(1, 1) == "/" then responses = responses + 1 end
   if responses == 20 then wrk.thread:stop() end
end
function done(summary, latency, requests)
   for _, thread in ipairs(threads) do
      print(("thread %d: %d %d %s %s %s"):format(thread:get("id"), thread:get("requests"), thread:get("responses"),
         thread:get("arg1"), thread:get("arg2"), thread:get("deep")))
   end
   print("url", threads[1]:get("arg0"), tostring(threads[1].addr))
   print("summary", summary.requests, summary.duration > 0, summary.bytes > 0, summary.errors.status)
   local value, count = latency(1)
   print("latency", latency.min <= latency.mean, latency.max >= latency:percentile(99), #latency > 0, value, count)
   print("requests", requests.max >= requests.min, requests.stdev)
end
"#;
    let (ran, server) = run("all", script, &format!("{FOREVER} -t2 -c2"), "one two");
    assert_eq!(ran.code, 0, "{ran:?}");
    let after = ran.out.split("Transfer/sec:").nth(1).expect("what done prints comes last");
    for part in [
        "thread 1: 20 20 one two x\n",
        "thread 2: 20 20 one two x\n",
        &format!("url\t{}\t{}\n", server.url(), server.address),
        "summary\t40\ttrue\ttrue\t0\n",
        "latency\ttrue\ttrue\ttrue\t",
        "requests\ttrue\t",
    ] {
        assert!(after.contains(part), "{part} in {after}");
    }
    assert_eq!(server.requests(), 40, "no request is made for nothing");
}

#[test]
fn requests_can_be_pipelined() {
    let script = "init = function(args)\n local r = {}\n for i = 1, 3 do r[i] = wrk.format(nil, '/' .. i) end\n \
                  req = table.concat(r)\n answers = 0\nend\nrequest = function() return req end\n\
                  response = function()\n answers = answers + 1\n if answers == 60 then wrk.thread:stop() end\nend\n";
    let (ran, server) = run("pipeline", script, &format!("{FOREVER} -t1 -c1 -R 300 -L"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(server.requests(), 60, "{ran:?}");
    // The last three are due after 57 of 300 parts of a second.
    assert!(ran.number_after("Requests/sec:") <= 60.0 * 300.0 / 57.0, "{ran:?}");
}

/// Only the last answer of a batch counted, which was good here.
#[test]
fn every_answer_of_a_batch_is_judged() {
    let script = "init = function(args) req = wrk.format(nil, '/'):rep(5) answers = 0 end
                  request = function() return req end
                  response = function()
                     answers = answers + 1
                     if answers == 50 then wrk.thread:stop() end
                  end";
    let (server, directory) = (Server::start(Manner::FifthIsGood), Directory::new());
    let [file, json] = ["batch.lua", "batch.json"].map(|name| directory.path().join(name));
    fs::write(&file, script).expect("a script");
    let flags = format!("{FOREVER} -t1 -c1 -R 500 -B --slo errors<1% --json {}", json.display());
    let ran = bench(&format!("{flags} -s {} {}", file.display(), server.url()));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("SLO missed: errors<1%: found 80.000%"), "{ran:?}");
    assert!(ran.err.contains("      500          40          -"), "{ran:?}");
    let value: serde_json::Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let count = |name: &str| value["answers"][name]["count"].as_u64();
    assert_eq!(
        (count("500"), count("2xx"), value["failures"]["count"].as_u64()),
        (Some(40), Some(10), Some(40))
    );
    assert_eq!(value["latency_us"]["count"], 10, "a latency is that of a batch");
}

/// What was overdue when its answer came was sent all the same.
#[test]
fn a_thread_that_stops_sends_no_more() {
    let script = "answers = 0\nresponse = function()\n answers = answers + 1\n if answers == 60 then wrk.thread:stop() end\nend\n";
    for rate in ["", "-R 1M"] {
        let (ran, server) = run("stop", script, &format!("{FOREVER} -t1 -c1 {rate}"), "");
        assert_eq!((ran.code, server.requests()), (0, 60), "{rate} {ran:?}");
    }
}

/// Whether a script pipelines was decided by its first request: the other answers of later ones were read errors.
#[test]
fn requests_can_be_pipelined_after_a_single_one() {
    let script = "local made, answers = 0, 0
                  function request()
                     made = made + 1
                     return wrk.format(nil, '/'):rep(made == 1 and 1 or 3)
                  end
                  function response()
                     answers = answers + 1
                     if answers == 31 then wrk.thread:stop() end
                  end
                  function done(summary) print('read errors', summary.errors.read, summary.requests) end";
    let (ran, _) = run("later", script, &format!("{FOREVER} -t1 -c1"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("read errors\t0\t31\n"), "{ran:?}");
}

#[test]
fn errors_of_a_script_name_file_and_line() {
    let cases = [
        ("syntax", "x = = 1", ":1:"),
        ("load", "\nerror('no')", ":2: no"),
        ("init", "function init()\n local a = nil + 1\nend", ":2: attempt to perform arithmetic"),
        ("setup", "function setup(t)\n t:nothing()\nend", ":2:"),
        (
            "request",
            "n = 0\nfunction request()\n n = n + 1\n if n > 5 then n.x.y = 1 end\n return wrk.format()\nend",
            ":4: attempt to index",
        ),
        ("response", "function response()\n error('bad')\nend", ":2: bad"),
        ("delay", "function delay()\n error('bad')\nend", ":2: bad"),
        // After a tail call, Lua does not know who called: the line in which the function begins has to do.
        (
            "tail",
            "\nfunction request()\n return wrk.format('PUT', '/', {}, {})\nend",
            ":2: request(): runtime error: invalid value (table)",
        ),
        ("done", "function done()\n error('bad')\nend", ":2: bad"),
    ];
    for (name, script, place) in cases {
        let duration = if name == "done" { "-d1s" } else { FOREVER };
        let (ran, _server) = run(name, script, &format!("{duration} -t1 -c1"), "");
        assert_eq!(ran.code, 2, "{name}: {ran:?}");
        assert!(ran.err.contains(&format!("/{name}.lua{place}")), "{name}: {}", ran.err);
    }
}

/// Lua has no place for a value: what a function returns wrongly is told with the line in which the function begins.
/// Files and verdict of a run of hours were lost by a typing error in what comes after it.
#[test]
fn a_done_that_fails_leaves_what_was_measured() {
    let directory = Directory::new();
    let files = ["run.json", "run.hdr", "run.html"].map(|name| directory.path().join(name));
    let [json, hdr, html] = files.each_ref().map(|file| file.display());
    let flags = format!("-t1 -c1 -d100ms --slo rate>1M --json {json} --hdr {hdr} --html {html}");
    let (ran, _) = run("done", "function done() error('bad') end", &flags, "");
    assert_eq!(ran.code, 2, "{ran:?}");
    for part in ["SLO missed: rate>1M", ":1: bad"] {
        assert!(ran.err.contains(part), "{part} in {ran:?}");
    }
    assert!(files.iter().all(|file| fs::metadata(file).is_ok_and(|written| written.len() > 0)), "{ran:?}");
}

#[test]
fn what_a_script_returns_wrongly_names_file_and_line() {
    let cases = [
        ("number", "function request() return 5 end", ":1: request() must return a string, not "),
        (
            "cut",
            "\nfunction request()\n return 'GET / HTTP/1.1' end",
            ":2: request() returned an incomplete request at 1:15",
        ),
        (
            "nothing",
            "\nfunction request()\n wrk.format('GET', '/')\nend",
            ":2: request() returned nil at once, so there is nothing to send",
        ),
        (
            "table",
            "\n\nfunction delay()\n return {}\nend",
            ":3: delay() must return milliseconds, a number, not table",
        ),
        (
            "text",
            "delay = function() return 'soon' end",
            ":1: delay() must return milliseconds, a number, not string",
        ),
    ];
    for (name, script, told) in cases {
        let (ran, server) = run(name, script, &format!("{FOREVER} -t2 -c2"), "");
        assert_eq!(ran.code, 2, "{name}: {ran:?}");
        assert!(ran.err.contains(&format!("/{name}.lua{told}")), "{name}: {}", ran.err);
        assert_eq!(server.requests(), 0, "{name}");
    }
}

/// As in wrk, which reads what `delay` returns as a number, and nothing as none.
#[test]
fn a_delay_may_be_text_or_nothing() {
    for (name, script) in [("none", "function delay() end"), ("text", "function delay() return '1' end")] {
        let stop = "n = 0\nfunction response()\n n = n + 1\n if n == 20 then wrk.thread:stop() end\nend\n";
        let (ran, server) = run(name, format!("{stop}{script}"), &format!("{FOREVER} -t1 -c1"), "");
        assert!(ran.code == 0 && server.requests() >= 20, "{name}: {ran:?}");
    }
}

/// It counted as latency of the server: forty milliseconds, of which the server took none.
#[test]
fn the_time_of_a_script_is_no_latency_in_a_closed_loop() {
    let script = "local function burn()
            local begin = wrk.time_us()
            while wrk.time_us() < begin + 20000 do end
        end
        function request() burn() return wrk.format() end
        function response() burn() end";
    let (ran, _server) = run("burn", script, "-d1s -t1 -c1 --latency", "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.percentile_ms("50%") < 15.0, "{}", ran.out);
}
