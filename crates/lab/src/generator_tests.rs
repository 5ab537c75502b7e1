//! The generator against servers that misbehave in known ways.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::{Drive, Measured, Method, NextRequest, Pace, run};

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

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn drive(address: SocketAddr, pace: Pace, duration_ms: u64) -> Drive {
    let duration = Duration::from_millis(duration_ms);
    let timeout = Duration::from_secs(10);
    Drive { address, connections: 1, pipeline: 1, pace, warmup: Duration::ZERO, duration, timeout }
}

/// The same request so many times.
fn gets(mut count: u64) -> NextRequest {
    Box::new(move |out| {
        if count == 0 {
            return false;
        }
        count -= 1;
        out.extend_from_slice(GET);
        true
    })
}

fn measured(drive: &Drive, requests: u64) -> Measured {
    run(drive, gets(requests)).expect("the server answers")
}

fn good(measured: &Measured) -> u64 {
    measured.good(Method::Get).count()
}

#[test]
fn a_pause_counts_for_every_request_that_was_due_in_it() {
    let address = serve(|count| {
        if count == 20 {
            std::thread::sleep(Duration::from_secs(1));
        }
        Some(FOUND)
    });
    let measured = measured(&drive(address, Pace::PerSecond(500.0), 2_000), u64::MAX);
    // Five hundred requests were due in the pause; to a closed loop it would be one slow answer of a thousand.
    assert_eq!(good(&measured) + measured.unsent(), 1_000);
    let all = measured.all();
    assert!(all.from_due_ms(75.0) >= 400.0, "p75 is {} ms", all.from_due_ms(75.0));
    assert!(all.from_due_ms(100.0) >= 975.0);
    assert!(all.from_sent_ms(75.0) < 400.0, "sent late, and answered soon: {}", all.from_sent_ms(75.0));
}

#[test]
fn answers_are_counted_by_status_and_a_closed_connection_is_replaced() {
    let address = serve(|count| Some([FOUND, MISSING, BUSY][count as usize % 3]));
    let measured = measured(&drive(address, Pace::Closed, 60_000), 30);
    assert_eq!((good(&measured), measured.status(404).count(), measured.status(503).count()), (10, 10, 10));
    assert_eq!((measured.bad(), measured.all().count()), (20, 30));
    assert_eq!((measured.sent_in_time, measured.good_in_time, measured.busy_in_time), (30, 10, 10));
}

#[test]
fn silence_is_a_timeout_and_what_waited_behind_it_is_unsent() {
    let address = serve(|count| (count == 0).then_some(FOUND));
    let timeout = Duration::from_millis(50);
    let measured = measured(&Drive { timeout, ..drive(address, Pace::PerSecond(1000.0), 200) }, u64::MAX);
    assert!(measured.unsent() >= 1);
    assert!(measured.bad() - measured.unsent() >= 1, "nothing timed out");
    assert_eq!(good(&measured) + measured.bad(), 200);
    assert!(measured.all().from_due_ms(100.0) >= 50.0);
}

#[test]
fn a_pipeline_keeps_the_order() {
    let address = serve(|count| Some(if count % 4 == 3 { MISSING } else { FOUND }));
    let measured = measured(&Drive { pipeline: 8, ..drive(address, Pace::Closed, 60_000) }, 4000);
    assert_eq!((good(&measured), measured.status(404).count()), (3000, 1000));
}

/// A server that answers in eights, and to fewer only when the rest has come, is waited for unless all eight are sent.
#[test]
fn a_pipeline_is_filled_before_the_first_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the generator connects");
        let mut eight = vec![0; 8 * GET.len()];
        while stream.read_exact(&mut eight).is_ok() {
            if stream.write_all(FOUND.repeat(8).as_bytes()).is_err() {
                return;
            }
        }
    });
    let timeout = Duration::from_secs(30);
    let plan = Drive { pipeline: 8, timeout, ..drive(address, Pace::Closed, 60_000) };
    let measured = measured(&plan, 80);
    assert_eq!((good(&measured), measured.bad()), (80, 0));
}

/// Reads the head of a request, answers, and reads its body after that.
fn answer_before_the_body(mut stream: TcpStream, body_bytes: usize) {
    let mut bytes = vec![0; body_bytes];
    loop {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            head.push(byte[0]);
        }
        if stream.write_all(FOUND.as_bytes()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20)); // The answer is there before the rest has gone out.
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
    }
}

#[test]
fn an_answer_that_comes_before_the_request_has_gone_out_does_not_hold_the_connection_up() {
    const BODY_BYTES: usize = 16 << 20; // More than sockets hold.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the generator connects");
        answer_before_the_body(stream, BODY_BYTES);
    });
    let mut left = 3;
    let next: NextRequest = Box::new(move |out| {
        let head = format!("PUT / HTTP/1.1\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
        out.resize(out.len() + BODY_BYTES, b'x');
        left -= 1;
        left >= 0
    });
    let measured = run(&drive(address, Pace::Closed, 20_000), next).expect("the server answers");
    assert_eq!(measured.good(Method::Put).count(), 3);
}

#[test]
fn a_warm_up_is_sent_and_not_counted() {
    let address = serve(|_| Some(FOUND));
    let warmup = Duration::from_millis(100);
    let measured = measured(&Drive { warmup, ..drive(address, Pace::PerSecond(1000.0), 200) }, u64::MAX);
    assert_eq!(good(&measured) + measured.unsent(), 200, "of 300 that were due");
    assert_eq!(measured.elapsed, Duration::from_millis(200));
}

#[test]
fn answers_that_are_missing_at_the_end_are_waited_for() {
    let address = serve(|_| {
        std::thread::sleep(Duration::from_millis(1_200));
        Some(FOUND)
    });
    let measured = measured(&drive(address, Pace::Closed, 600), u64::MAX);
    assert_eq!((good(&measured), measured.bad(), measured.good_in_time), (1, 0, 0));
    assert!(measured.all().from_due_ms(100.0) >= 1_190.0);
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let error = run(&drive(address, Pace::Closed, 50), gets(u64::MAX)).expect_err("nobody listens");
    assert_eq!(error, format!("{address} did not answer a single request"));
}

#[test]
fn a_rate_that_nobody_can_keep_is_a_closed_loop_with_a_backlog() {
    let address = serve(|_| Some(FOUND));
    let drive = Drive { connections: 4, ..drive(address, Pace::PerSecond(1e8), 100) };
    let measured = measured(&drive, u64::MAX);
    // The last due time is 10 ns before the end, and every answer was read as it came.
    assert_eq!(good(&measured) + measured.unsent(), 10_000_000);
    assert_eq!(measured.bad(), measured.unsent());
    assert!(measured.good_in_time > 4, "only the first requests of {}", measured.good_in_time);
    // They count from when they were due.
    assert!(measured.all().from_due_ms(50.0) > 20.0);
}
