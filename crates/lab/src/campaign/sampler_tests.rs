use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

/// The first reading waited for the metrics, while the load ran already.
#[test]
fn cpu_time_counts_while_metrics_are_slow() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::parse(&format!("http://{}", server.local_addr().unwrap())).unwrap();
    let own = std::process::id();
    let used_us = || cpu_us(own).unwrap();
    let sampler = Sampler::start(&target, Some(own));
    let (before_us, worked_us) = (used_us(), 50_000.0);
    while used_us() < before_us + worked_us {
        std::hint::spin_loop();
    }
    drop(server); // The first request for metrics has waited until here, if the thread runs already.
    let found_us = sampler.finish().cpu_us_per_request.unwrap();
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

/// As many flushes as answers before it; says when it answered.
fn serve_metrics(server: &TcpListener, answers: u64, clock: &Clock) -> Vec<f64> {
    let mut answered_s = Vec::new();
    while (answered_s.len() as u64) < answers {
        let (mut stream, _) = server.accept().unwrap();
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            request.push(byte[0]);
        }
        if request.is_empty() {
            continue; // Tried whether there is a server.
        }
        let body = format!("{FLUSHES} {}\n", answered_s.len());
        answered_s.push(now_s(clock));
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    }
    answered_s
}

/// A flush was told for the time at which the server was asked, up to two seconds before it happened.
#[test]
fn flushes_are_told_for_the_time_of_the_answer() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::parse(&format!("http://{}", server.local_addr().unwrap())).unwrap();
    let mut taker = Taker::new(&target, None);
    let clock = taker.clock;
    let serving = std::thread::spawn(move || serve_metrics(&server, 2, &clock));
    taker.start();
    taker.take();
    let (answered_s, series) = (serving.join().unwrap(), taker.finish());
    let sample = series.samples[0];
    assert_eq!(sample.flushes, Some(1.0));
    assert!(
        sample.at_s < answered_s[1] && answered_s[1] <= sample.scraped_at_s(),
        "{sample:?} {answered_s:?}"
    );
    assert_eq!(series.missing, ["CPU and memory: the server's process is not known (--pid)"]);
}

fn after_scrapes(scrapes: &[Result<Scrape, String>]) -> NodeSeries {
    let target = Target::parse("http://127.0.0.1:1").unwrap();
    let mut taker = Taker::new(&target, Some(std::process::id()));
    taker.keep(scrapes[0].clone());
    for scrape in &scrapes[1..] {
        let now = read(taker.pid, &taker.clock);
        taker.add(now, scrape.clone());
    }
    taker.finish()
}

/// What was flushed between two answers was lost if there was none in between, and nothing said so.
#[test]
fn what_happens_while_metrics_are_late_is_in_the_next_answer() {
    let answer = |at_s, flushes| Ok(Scrape { at_s, flushes: Some(flushes), ..Scrape::default() });
    let late = || Err("GET /metrics took longer than 2 s".to_owned());
    let series = after_scrapes(&[answer(0.0, 3.0), answer(0.5, 4.0), late(), late(), answer(5.0, 9.0)]);
    let found = series.samples.iter().map(|sample| (sample.scraped_at_s, sample.flushes));
    let expected = [(Some(0.5), Some(1.0)), (None, None), (None, None), (Some(5.0), Some(5.0))];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let told = "flushes and compactions at 2 of 5 times (the next answer has them): GET /metrics took longer than 2 s";
    assert_eq!(series.missing, [told]);
}

/// If the first answer was late, all of them were said to have none.
#[test]
fn a_server_has_no_flushes_only_if_no_answer_has_them() {
    let answer = |flushes| Ok(Scrape { flushes, ..Scrape::default() });
    let late = || Err("GET /metrics was answered with 503".to_owned());
    let missing = |scrapes: &[Result<Scrape, String>]| after_scrapes(scrapes).missing.join("\n");
    let reason = "GET /metrics was answered with 503";
    assert_eq!(missing(&[late(), late()]), format!("flushes and compactions: {reason}"));
    let once = "flushes and compactions at 1 of 2 times (the next answer has them)";
    assert_eq!(missing(&[late(), answer(Some(1.0))]), format!("{once}: {reason}"));
    let without = "flushes and compactions: GET /metrics does not have them";
    assert_eq!(missing(&[answer(None), answer(None)]), without);
    assert_eq!(missing(&[answer(Some(1.0)), answer(Some(1.0))]), "");
}
