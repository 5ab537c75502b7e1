//! One Ctrl-C ends a run, whatever a script, a server, a connection or a file does, and prints the results so far.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

use crate::command::{Ran, start};
use crate::server::{Manner, Server};
use crate::support::{Directory, Running, wait_until};

/// A run with a file to write, in a directory of its own.
struct Run {
    directory: Directory,
    running: Running,
}

/// How it ended, and what it wrote.
struct Ended {
    ran: Ran,
    /// None if there is no file.
    json: Option<serde_json::Value>,
}

impl Run {
    /// Runs a script that marks its progress with `mark()`, and then never returns.
    fn of_script(code: &str, flags: &str, server: &Server) -> Run {
        let directory = Directory::new();
        let (script, mark) = (directory.path().join("script.lua"), directory.path().join("mark"));
        let place = format!("directory = {:?}\n", directory.path().display().to_string());
        let mark =
            format!("{place}function mark() io.open({:?}, 'w'):close() end\n", mark.display().to_string());
        let hang = "function hang() mark() while true do end end\n";
        fs::write(&script, format!("{mark}{hang}{code}")).expect("a script");
        let flags = format!("{flags} -s {}", script.display());
        let run = Run::start(directory, &flags, &server.url());
        wait_until("a script that hangs", || run.directory.path().join("mark").exists());
        run
    }

    fn start(directory: Directory, flags: &str, url: &str) -> Run {
        let json = directory.path().join("run.json");
        Run { running: start(&format!("--json {} {flags} {url}", json.display())), directory }
    }

    /// Waits until it is prepared for Ctrl-C, and so has begun.
    fn wait_until_it_runs(&self) {
        wait_until("a run", || self.running.thread_names().iter().any(|name| name == "interrupt"));
    }

    fn interrupt(self, signal: &str) -> Ended {
        self.running.signal(signal);
        let ran = Ran::of(&self.running.wait());
        let json = self.directory.path().join("run.json");
        let written = fs::read_to_string(json).ok();
        for entry in fs::read_dir(self.directory.path()).expect("the directory").flatten() {
            let name = entry.file_name().into_string().expect("a name of text");
            assert!(["script.lua", "mark", "run.json", "pipe"].contains(&&*name), "{name} was left behind");
        }
        let json = written.map(|text| serde_json::from_str(&text).expect("a whole file"));
        Ended { ran, json }
    }
}

impl Ended {
    /// It was interrupted, and printed the results so far.
    #[track_caller]
    fn assert_measured(&self, what: &str, requests: u64) {
        let ran = &self.ran;
        assert_eq!(ran.code, 130, "{what}: {ran:?}");
        assert!(ran.out.contains(&format!("  {requests} requests in ")), "{what}: {}", ran.out);
        assert!(ran.number_after("Requests/sec:") > 0.0, "{what}: {}", ran.out);
        assert!(ran.err.contains("interrupted") && ran.err.contains("did not return"), "{what}: {}", ran.err);
        let json = self.json.as_ref().unwrap_or_else(|| panic!("{what}: no file"));
        assert_eq!(json["interrupted"], true, "{what}");
    }

    /// It was broken off before anything was measured.
    #[track_caller]
    fn assert_broken_off(&self, what: &str) {
        let ran = &self.ran;
        assert_eq!((ran.code, &*ran.out), (130, ""), "{what}: {ran:?}");
        assert!(ran.err.contains("interrupted"), "{what}: {}", ran.err);
        assert!(self.json.is_none(), "{what}");
    }
}

#[test]
fn a_script_that_never_returns_before_the_run_is_broken_off() {
    let server = Server::start(Manner::Answer(200));
    let scripts = [
        ("the script itself", "hang()"),
        ("wrk.resolve", "function wrk.resolve() hang() end"),
        ("setup", "function setup() hang() end"),
        ("init", "function init() hang() end"),
        ("the first request", "function request() hang() end"),
    ];
    let runs = scripts.map(|(what, code)| (what, Run::of_script(code, "-t2 -c2 -d1h", &server)));
    for (what, run) in runs {
        run.interrupt("INT").assert_broken_off(what);
    }
}

#[test]
fn a_script_that_never_returns_within_the_run_leaves_what_was_measured() {
    let server = Server::start(Manner::Answer(200));
    let counting = "local n = 0\n local function count() n = n + 1 if n > 50 then hang() end end\n";
    let get = "return wrk.format('GET', '/')";
    let request = format!("{counting}function request() count() {get} end");
    let delay = format!("{counting}function delay() count() return 0 end");
    let response = format!("{counting}function response() count() end");
    // It hangs in code that has been compiled before.
    let hot = "local n = 0
               function request()
                  n = n + 1
                  if n > 50 then mark() end
                  local x = 0
                  while n > 50 or x < 1000 do x = x + 1 end
                  return wrk.format('GET', '/')
               end";
    // A shell that marks its progress, and runs until the directory is gone. C ignores Ctrl-C meanwhile.
    let shell = "local n = 0
                 function request()
                    n = n + 1
                    local loop = 'while [ -e script.lua ]; do sleep 0.1; done >/dev/null 2>&1'
                    if n > 50 then os.execute('cd ' .. directory .. '; touch mark; ' .. loop) end
                    return wrk.format('GET', '/')
                 end";
    let cases = [
        ("request", &*request, 50),
        ("delay", &delay, 50),
        ("response", &response, 51),
        ("hot", hot, 50),
        ("os.execute", shell, 50),
    ];
    for flags in ["-t1 -c1 -d1h", "-t1 -c1 -d1h -R 1000 -L"] {
        let runs = cases.map(|(what, code, count)| (what, Run::of_script(code, flags, &server), count));
        for (what, run, count) in runs {
            run.interrupt("INT").assert_measured(&format!("{what} with {flags}"), count);
        }
    }
}

#[test]
fn one_thread_that_never_returns_does_not_hide_the_others() {
    let server = Server::start(Manner::Answer(200));
    let code = "local threads = 0
                function setup(thread) thread:set('number', threads) threads = threads + 1 end
                local n = 0
                function request()
                   n = n + 1
                   if number == 0 and n > 20 then hang() end
                   return wrk.format('GET', '/')
                end
                function done() print('done was called') end";
    let run = Run::of_script(code, "-t2 -c2 -d1h", &server);
    wait_until("requests of the other thread", || server.requests() > 100);
    let ended = run.interrupt("INT");
    assert_eq!(ended.ran.code, 130, "{:?}", ended.ran);
    let json = ended.json.expect("a file");
    assert!(json["requests"].as_u64().expect("a number") > 80, "{json}");
    assert!(ended.ran.err.contains("note: 1 thread did not return"), "{}", ended.ran.err);
    assert!(!ended.ran.out.contains("done was called"), "{}", ended.ran.out);
}

#[test]
fn a_done_that_never_returns_is_broken_off_after_the_result() {
    let server = Server::start(Manner::Answer(200));
    let run = Run::of_script("function done() hang() end", "-t1 -c1 -d100ms", &server);
    let ended = run.interrupt("TERM");
    assert_eq!(ended.ran.code, 143, "{:?}", ended.ran);
    assert!(ended.ran.number_after("Requests/sec:") > 0.0, "{}", ended.ran.out);
    assert!(ended.ran.err.contains("aborted"), "{}", ended.ran.err);
    assert!(ended.json.is_none());
}

/// It was said to have failed.
#[test]
fn a_fill_that_is_interrupted_has_the_exit_code_of_that() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let server = Server::start(Manner::Slow(Duration::from_millis(1)));
        let flags = "-t1 -c1 -d1h --workload get --keys 1M --fill";
        let run = Run::start(Directory::new(), flags, &server.url());
        run.wait_until_it_runs();
        wait_until("a fill that has begun", || server.requests() > 0);
        let ended = run.interrupt(signal);
        assert_eq!((ended.ran.code, &*ended.ran.out), (code, ""), "{:?}", ended.ran);
        assert!(ended.ran.err.contains("1000000 keys (key0 to key999999)"), "{}", ended.ran.err);
        assert!(ended.ran.err.contains("interrupted"), "{}", ended.ran.err);
    }
}

/// What held until then was told as the knee, and the exit code was 0.
#[test]
fn a_search_for_the_knee_that_is_cut_short_says_so() {
    let server = Server::start(Manner::Answer(200));
    let start = |server: &Server, flags: &str| {
        Run::start(Directory::new(), &format!("-t1 -c1 {flags} --find-knee --slo max<1000s"), &server.url())
    };
    let first = start(&server, "-d1h");
    wait_until("a search that has begun", || server.requests() > 0);
    let ended = first.interrupt("INT");
    assert_eq!(ended.ran.code, 130, "{:?}", ended.ran);
    assert!(ended.ran.out.contains("interrupted before the knee was found: no rate"), "{:?}", ended.ran);
    assert!(ended.json.is_none(), "it replaces no earlier report");

    let second = start(&server, "-d1s");
    wait_until("a rate that was tried", || second.running.printed().lines().count() > 2);
    let ended = second.interrupt("TERM");
    assert_eq!(ended.ran.code, 143, "{:?}", ended.ran);
    assert!(ended.ran.out.contains("interrupted before the knee was found: "), "{:?}", ended.ran);
    let json = ended.json.expect("a file");
    assert!(json["interrupted"] == true && json["knee"].is_null(), "{json}");
    assert_eq!(json["curve"][0]["rate"], 1_000);

    // The first rate is answered, and from some request of a later one on, none is.
    let (at_request, time) = (1_500, Duration::from_hours(1));
    let frozen = Server::start(Manner::Freeze { at_request, time });
    let ran = Ran::of(&start(&frozen, "-d1s").running.wait());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("No request was answered at ") && !ran.out.contains("Knee: "), "{ran:?}");
}

/// An address at which a connection is never made: the listener's queue is full.
fn full() -> (rustix::fd::OwnedFd, SocketAddr, Vec<TcpStream>) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    rustix::net::listen(&socket, 0).expect("a socket that listens");
    let address =
        SocketAddr::try_from(rustix::net::getsockname(&socket).expect("a name")).expect("an address");
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200));
    let taken = std::iter::from_fn(|| connect().ok()).collect();
    (socket, address, taken)
}

#[test]
fn a_server_that_hangs_is_broken_off() {
    let silent = Server::start(Manner::Silent);
    let (_socket, full, _taken) = full();
    let full = format!("http://{full}");
    let of_script = "--timeout 1h -t1 -c1 -d1h";
    let script = Run::of_script("mark()", of_script, &silent);
    let flags = "--timeout 1h -t1 -c1 -d1h";
    let fill = "--timeout 1h -t1 -c1 -d1h --workload get --keys 1000 --fill";
    let start = |flags: &str, url: &str| Run::start(Directory::new(), flags, url);
    let broken_off = [("connecting", start(flags, &full)), ("a fill", start(fill, &silent.url()))];
    let measured = [
        ("no answer", start(flags, &silent.url())),
        ("no answer, open", start(&format!("{flags} -R 9"), &silent.url())),
    ];
    for (what, run) in broken_off {
        run.wait_until_it_runs();
        run.interrupt("INT").assert_broken_off(what);
    }
    for (what, run) in measured.into_iter().chain([("no answer to a script", script)]) {
        wait_until("a run that has begun", || run.running.printed().contains("Running"));
        let ended = run.interrupt("INT");
        assert_eq!(ended.ran.code, 1, "{what}: {:?}", ended.ran);
        assert!(ended.ran.out.contains("  0 requests in "), "{what}: {}", ended.ran.out);
        assert!(ended.ran.err.contains("no request was answered"), "{what}: {}", ended.ran.err);
        assert_eq!(ended.json.expect("a file")["interrupted"], true, "{what}");
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_broken_off() {
    let server = Server::start(Manner::Answer(200));
    let directory = Directory::new();
    let pipe: PathBuf = directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from(0o600)).expect("a pipe");
    let run = Run::start(directory, &format!("--hdr {} -t1 -c1 -d100ms", pipe.display()), &server.url());
    wait_until("a file before the pipe", || run.directory.path().join("run.json").exists());
    let ended = run.interrupt("INT");
    assert_eq!(ended.ran.code, 130, "{:?}", ended.ran);
    assert!(ended.ran.number_after("Requests/sec:") > 0.0, "{}", ended.ran.out);
    assert!(ended.json.is_some());
}
