use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;

/// The first reading waited for the metrics, while the load ran already.
#[test]
fn cpu_time_counts_while_metrics_are_slow() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::parse(&format!("http://{}", server.local_addr().unwrap())).unwrap();
    let own = std::process::id();
    let used_us = || cpu_us(own).unwrap();
    let mut sampler = Sampler::start(&target, Some(own));
    sampler.begin();
    let (before_us, worked_us) = (used_us(), 50_000.0);
    while used_us() < before_us + worked_us {
        std::hint::spin_loop();
    }
    drop(server); // The first request for metrics has waited until here, if the thread runs already.
    sampler.end();
    let found_us = sampler.finish().series.cpu_us_per_request.unwrap();
    assert!(found_us >= worked_us, "{found_us} of {worked_us} us");
}

#[test]
fn processes_are_read_whatever_their_name() {
    let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 70 30 5 2 20 0 4 0 5";
    assert_eq!(cpu_ticks(stat), Some((100, 7)));
    assert_eq!(cpu_ticks("12 (a) S 1 2"), None);
    let own = std::process::id();
    assert!(cpu_us(own).is_some() && resident_bytes(own).is_some_and(|bytes| bytes > 1e5));
}

#[test]
fn figures_without_labels_are_taken() {
    let figures = parse_metrics("# HELP a b\na 5\nb{x=\"1\"} 7\nc 1.5e3\nnonsense\n");
    assert_eq!(figures, HashMap::from([("a".to_owned(), 5.0), ("c".to_owned(), 1500.0)]));
}

/// As many flushes as answers before it; says when it answered. The first connection after the end is the last one.
fn serve_metrics(server: &TcpListener, is_over: &AtomicBool, clock: &Clock) -> Vec<f64> {
    let mut answered_s = Vec::new();
    loop {
        let (mut stream, _) = server.accept().unwrap();
        if is_over.load(Ordering::SeqCst) {
            return answered_s;
        }
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
            request.push(byte[0]);
        }
        if request.is_empty() {
            continue; // Tried whether there is a server.
        }
        let body = format!("{FLUSHES} {}\n", answered_s.len());
        answered_s.push(now_s(clock));
        // On a busy machine, who asked may have given up.
        _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    }
}

/// A flush was told for the time at which the server was asked, up to two seconds before it happened.
#[test]
fn flushes_are_told_for_the_time_of_the_answer() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let target = Target::parse(&format!("http://{address}")).unwrap();
    let mut taker = Taker::new(&target, None, Clock::start());
    let (clock, is_over) = (taker.clock, Arc::new(AtomicBool::new(false)));
    let has_ended = Arc::clone(&is_over);
    let serving = std::thread::spawn(move || serve_metrics(&server, &has_ended, &clock));
    while taker.last_scrape.is_none() {
        taker.start();
    }
    let has_flushes = |taker: &Taker<'_>| taker.sampled.series.samples.last()?.flushes;
    while has_flushes(&taker).is_none() {
        taker.take();
    }
    is_over.store(true, Ordering::SeqCst);
    let _last = TcpStream::connect(address).unwrap();
    let (answered_s, series) = (serving.join().unwrap(), taker.finish().series);
    let (sample, answered_s) = (series.samples.last().unwrap(), answered_s.last().unwrap());
    assert!(sample.flushes.is_some_and(|flushes| flushes >= 1.0), "{sample:?}");
    assert!(sample.at_s < *answered_s && *answered_s <= sample.scraped_at_s(), "{sample:?} {answered_s:?}");
    assert_eq!(series.missing, ["CPU and memory: the server's process is not known (--pid)"]);
}

/// Each is asked for a second after the one before it, from the beginning of the run on, which takes ten.
fn after_scrapes(scrapes: &[Result<Scrape, String>]) -> NodeSeries {
    sampled(scrapes).of_run(10.0)
}

fn sampled(scrapes: &[Result<Scrape, String>]) -> Sampled {
    let target = Target::parse("http://127.0.0.1:1").unwrap();
    let mut taker = Taker::new(&target, Some(std::process::id()), Clock::start());
    taker.keep(0.0, scrapes[0].clone());
    for (at, scrape) in scrapes.iter().enumerate().skip(1) {
        let now = Reading { at_s: at as f64, ..taker.last };
        taker.add(now, scrape.clone());
    }
    taker.finish()
}

/// When it answered, and with how many flushes; or that it was late.
fn scrape(answer: Option<(f64, f64)>) -> Result<Scrape, String> {
    let scrape = |(at_s, flushes)| Scrape { at_s, flushes: Some(flushes), ..Scrape::default() };
    answer.map(scrape).ok_or_else(|| "GET /metrics took longer than 2 s".to_owned())
}

/// What was flushed between two answers was lost if there was none in between, and nothing said so. Later, it was said that the next
/// answer has it, also if there is none, or none before it that it could be compared with.
#[test]
fn what_happens_while_metrics_are_late_is_in_the_next_answer_or_unknown() {
    let (answer, late) = (|at_s, flushes| scrape(Some((at_s, flushes))), || scrape(None));
    let next = "flushes and compactions at 2 of 5 times (the next answer has them)";
    let before = "flushes and compactions before the first answer, at 1 of 3 times";
    let after = |times| format!("flushes and compactions after the last answer, at {times} times");
    let cases = [
        (
            vec![answer(0.0, 3.0), answer(1.1, 4.0), late(), late(), answer(4.1, 9.0)],
            vec![Some(1.0), None, None, Some(5.0)],
            vec![next.to_owned()],
        ),
        (vec![late(), answer(1.1, 1.0), answer(2.1, 3.0)], vec![None, Some(2.0)], vec![before.to_owned()]),
        (vec![answer(0.0, 1.0), late()], vec![None], vec![after("1 of 2")]),
        (vec![late(), answer(1.1, 1.0), late()], vec![None, None], vec![before.to_owned(), after("1 of 3")]),
    ];
    for (scrapes, flushes, told) in cases {
        let series = after_scrapes(&scrapes);
        let found: Vec<_> = series.samples.iter().map(|sample| sample.flushes).collect();
        let told: Vec<_> =
            told.iter().map(|told| format!("{told}: GET /metrics took longer than 2 s")).collect();
        assert_eq!((found, series.missing), (flushes, told), "{scrapes:?}");
    }
}

/// An answer that came after the end, or long after the beginning, was no failure: nothing said what nobody knows.
#[test]
fn an_answer_beyond_the_run_leaves_a_part_of_it_without_figures() {
    let answer = |at_s, flushes| scrape(Some((at_s, flushes)));
    let end = "GET /metrics was answered after the end of the run";
    let missing = |scrapes: &[Result<Scrape, String>]| after_scrapes(scrapes).missing;
    let after =
        |times| vec![format!("flushes and compactions after the last answer, at {times} times: {end}")];
    assert_eq!(missing(&[answer(0.0, 1.0), scrape(None), answer(10.1, 4.0)]), after("2 of 3"));
    assert_eq!(missing(&[answer(0.0, 1.0), answer(10.1, 4.0)]), after("1 of 2"));
    assert_eq!(missing(&[answer(10.1, 1.0)]), [format!("flushes and compactions: {end}")]);
    let begin = "flushes and compactions of the first 1.8 s: GET /metrics was not answered before";
    assert_eq!(missing(&[answer(1.8, 1.0), answer(2.4, 2.0)]), [begin]);
}

/// They were told as missing in it.
#[test]
fn answers_that_lacked_before_a_run_are_none_of_it() {
    let mut scrapes = vec![scrape(None), scrape(None), scrape(None), scrape(None)];
    scrapes.extend((4..15).map(|at| scrape(Some((f64::from(at) + 0.5, 1.0)))));
    let run = Sampled { began_s: 5.0, ..sampled(&scrapes) };
    assert_eq!(run.of_run(10.0).missing, [""; 0]);
}

/// Whatever was asked when the run ended was told as missing; other runs lacked as much without a word.
#[test]
fn an_answer_that_is_under_way_at_the_end_is_no_worth_a_note() {
    let until = |last_s: f64| {
        let mut scrapes: Vec<_> = (0..9).map(|at| scrape(Some((f64::from(at), 1.0)))).collect();
        scrapes.extend([last_s, 10.1].map(|at_s| scrape(Some((at_s, 1.0)))));
        after_scrapes(&scrapes).missing
    };
    assert_eq!(until(9.1), [""; 0]);
    let end = "GET /metrics was answered after the end of the run";
    assert_eq!(
        until(8.9),
        [format!("flushes and compactions after the last answer, at 1 of 11 times: {end}")]
    );
}

/// What the server does while the others are looked at, as writing its profiles down, was counted as work for requests.
#[test]
fn what_a_server_does_after_the_end_of_a_run_is_none_of_it() {
    let pid = std::process::id();
    let used = || cpu_us(pid).unwrap();
    let before = used();
    let target = Target::parse("http://127.0.0.1:1").unwrap();
    let mut sampler = Sampler::start(&target, Some(pid));
    sampler.begin();
    sampler.end();
    let after = used();
    while used() < after + 50_000.0 {}
    assert!(sampler.finish().series.cpu_us_per_request.is_some_and(|us| us <= after - before));
}

/// Making all connections of a run, with their handshakes, was counted as work for requests.
#[test]
fn what_a_server_does_before_the_beginning_of_a_run_is_none_of_it() {
    let pid = std::process::id();
    let used = || cpu_us(pid).unwrap();
    let target = Target::parse("http://127.0.0.1:1").unwrap();
    let mut sampler = Sampler::start(&target, Some(pid));
    let started = used();
    while used() < started + 50_000.0 {}
    let before = used();
    sampler.begin();
    sampler.end();
    let after = used();
    assert!(sampler.finish().series.cpu_us_per_request.is_some_and(|us| us <= after - before));
}

/// If the first answer was late, all of them were said to have none.
#[test]
fn a_server_has_no_flushes_only_if_no_answer_has_them() {
    let without = || Ok(Scrape::default());
    let missing = |scrapes: &[Result<Scrape, String>]| after_scrapes(scrapes).missing.join("\n");
    let unknown = "flushes and compactions: GET /metrics took longer than 2 s";
    assert_eq!(missing(&[scrape(None), scrape(None)]), unknown);
    assert_eq!(missing(&[without(), without()]), "flushes and compactions: GET /metrics does not have them");
    assert_eq!(missing(&[scrape(Some((0.1, 1.0))), scrape(Some((1.1, 1.0)))]), "");
}
