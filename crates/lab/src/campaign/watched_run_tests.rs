use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};

use super::super::sampler::cpu_us;
use super::*;
use crate::cli::Target;
use crate::engine::{Ending, Plan};

/// Answers every request, and says what each connection, by its number, was asked for first.
fn serve(server: &TcpListener, asked: &Sender<(usize, String)>) {
    for (number, stream) in server.incoming().flatten().enumerate() {
        let asked = asked.clone();
        std::thread::spawn(move || answer(stream, number, &asked));
    }
}

fn answer(mut stream: TcpStream, number: usize, asked: &Sender<(usize, String)>) {
    let (mut head, mut byte, mut is_first) = (Vec::new(), [0], true);
    while stream.read(&mut byte).is_ok_and(|read| read > 0) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        if is_first {
            let text = String::from_utf8_lossy(&head);
            // Whoever listened may have seen enough.
            _ = asked.send((number, text.split(' ').nth(1).unwrap_or_default().to_owned()));
        }
        (head, is_first) = (Vec::new(), false);
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

/// They were asked for before the connections were made, so they ended before the run did: the server wrote them down meanwhile.
#[test]
fn profiles_begin_when_all_connections_are_made() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let (asked_in, asked) = channel();
    std::thread::spawn(move || serve(&server, &asked_in));
    let plan = Plan {
        threads: 1,
        connections: 8,
        pipeline: 1,
        duration_ns: 1_000_000_000,
        warmup_ns: 0,
        timeout_ns: 2_000_000_000,
        rate: None,
        ending: Ending::Cut,
        is_batch_latency: false,
        misses_are_good: false,
    };
    let target = Target::parse(&url).unwrap();
    let load = Load { target: &target, headers: &[], workload: None, value_bytes: None, plan };
    let kinds = [Kind::Cpu, Kind::Alloc].map(|kind| (kind, String::new()));
    let run = watched_run(&load, None, &kinds, &Arc::new(AtomicBool::new(false))).unwrap();
    assert_eq!(run.profiles.len(), 2);
    let (profiles, others): (Vec<_>, Vec<_>) =
        asked.try_iter().partition(|(_, path)| path.starts_with("/debug/profile/"));
    let of_load = others.iter().filter(|(_, path)| path != "/metrics").map(|(number, _)| *number);
    let last_of_load = of_load.max().expect("connections of the load");
    assert!(
        profiles.len() == 2 && profiles.iter().all(|(number, _)| *number > last_of_load),
        "{others:?} {profiles:?}"
    );
}

/// The intervals of the last three seconds were added up before its CPU time was read, while it wrote its profiles.
#[test]
fn what_a_server_does_while_its_run_is_added_up_is_none_of_it() {
    let own = std::process::id();
    let used_us = || cpu_us(own).unwrap();
    let before = used_us();
    let target = Target::parse("http://127.0.0.1:1").unwrap();
    let sampler = RefCell::new(Sampler::start(&target, Some(own)));
    let mut watchers = Watchers { live: Live::new(1), heat: HeatRecorder::default(), sampler: &sampler };
    sampler.borrow_mut().begin();
    watchers.ended();
    let after = used_us();
    while used_us() < after + 50_000.0 {}
    sampler.borrow_mut().end();
    let found = sampler.into_inner().finish().series.cpu_us_per_request;
    assert!(found.is_some_and(|us| us <= after - before), "{found:?}");
}
