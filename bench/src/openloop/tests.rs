//! The generator against servers that misbehave in known ways.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::{Class, Pace, Plan, Report, run};

/// A server on which the `n`-th request of each connection (the first being 0) is answered by `answer`; `None` is
/// silence. Requests have no body.
fn serve(answer: impl Fn(u64) -> Option<&'static str> + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || serve_connection(stream, &answer));
        }
    });
    address
}

fn serve_connection(mut stream: TcpStream, answer: &dyn Fn(u64) -> Option<&'static str>) {
    let (mut count, mut received, mut buffer) = (0, Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..read]);
        while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            received.drain(..end + 4);
            let Some(text) = answer(count) else { continue };
            count += 1;
            if stream.write_all(text.as_bytes()).is_err() || text.contains("close") {
                return;
            }
        }
    }
}

const FOUND: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

fn reads(address: SocketAddr, connections: usize, pace: Pace, duration_ms: u64) -> Plan {
    Plan { put_share: 0.0, ..Plan::new(address, connections, pace, Duration::from_millis(duration_ms)) }
}

fn report(plan: &Plan) -> Report {
    run(plan).expect("the server is there")
}

#[test]
fn a_pause_counts_for_every_request_that_was_due_in_it() {
    let address = serve(|count| {
        if count == 20 {
            std::thread::sleep(Duration::from_millis(200));
        }
        Some(FOUND)
    });
    let report = report(&reads(address, 1, Pace::PerSecond(500.0), 400));
    // A hundred requests were due in the pause; to a closed loop it would be one slow answer of two hundred.
    assert_eq!(report.count(Class::Get) + report.unsent, 200);
    assert!(report.all_ms(75.0) >= 80.0, "p75 is {} ms", report.all_ms(75.0));
    assert!(report.all_ms(100.0) >= 195.0);
}

#[test]
fn answers_are_counted_by_class_and_a_closed_connection_is_replaced() {
    let address = serve(|count| Some([FOUND, MISSING, BUSY][count as usize % 3]));
    let report = report(&Plan { requests_max: Some(30), ..reads(address, 1, Pace::Closed, 60_000) });
    assert_eq!((report.good(), report.lost, report.timeouts), (10, 0, 0));
    assert_eq!((report.count(Class::NotFound), report.count(Class::Busy)), (10, 10));
    assert_eq!(report.bad(), 20);
}

#[test]
fn silence_is_a_timeout_and_what_waited_behind_it_is_unsent() {
    let address = serve(|_| None);
    let timeout = Duration::from_millis(50);
    let report = report(&Plan { timeout, ..reads(address, 1, Pace::PerSecond(1000.0), 200) });
    assert_eq!(report.good(), 0);
    assert!(report.timeouts >= 1 && report.unsent >= 1);
    assert_eq!(report.timeouts + report.unsent + report.lost, 200);
    assert!(report.all_ms(100.0) >= 50.0);
}

#[test]
fn a_pipeline_keeps_the_order() {
    let address = serve(|count| Some(if count % 4 == 3 { MISSING } else { FOUND }));
    let plan = Plan { pipeline: 8, requests_max: Some(4000), ..reads(address, 1, Pace::Closed, 60_000) };
    let report = report(&plan);
    assert_eq!((report.good(), report.count(Class::NotFound)), (3000, 1000));
}
