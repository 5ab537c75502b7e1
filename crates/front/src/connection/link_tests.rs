use std::future::poll_fn;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::sim::SimClock;
use ladoga_runtime::{Gate, LoopContext, Metrics, Supervisor};
use ladoga_server::{Connection, Limits};
use tokio::net::TcpStream;

use super::{Core, Link, Socket};

const TIMEOUT_MS: u64 = 1_000;

/// A connection that waits for requests, its client, and the clock of its event loop.
pub(super) fn connected() -> (Link, std::net::TcpStream, SimClock) {
    let clock = SimClock::new();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let metrics = Arc::clone(&Metrics::new(1).loops[0]);
    let context = LoopContext::new(0, Arc::clone(&shared), metrics, Supervisor::default());
    let limits = Limits { request_timeout_ms: TIMEOUT_MS, ..Limits::default() };
    let core = Core::new(Rc::new(context), limits, Gate::new(1 << 20, 0, "bytes", shared));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let client = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
    let (socket, from) = listener.accept().expect("a client");
    socket.set_nonblocking(true).expect("a socket");
    let socket = TcpStream::from_std(socket).expect("a socket");
    (Link::new(Socket::new((socket, from.ip()), None), Rc::new(core)), client, clock)
}

/// The client sends this, and the connection gets so far with it that it waits for more.
async fn send(link: &Link, mut client: &std::net::TcpStream, text: &str) {
    client.write_all(text.as_bytes()).expect("it is sent");
    let before = link.http().has_input();
    poll_fn(|context| match link.poll_next(context) {
        Poll::Pending if link.http().has_input() == before => Poll::Pending,
        _ => Poll::Ready(()),
    })
    .await;
}

/// Whether it is overdue after so long.
fn is_overdue(link: &Link, clock: &SimClock, ms: u64) -> bool {
    clock.advance(Duration::from_millis(ms));
    link.core.look_at_the_clock();
    link.sweep(link.now_ms());
    link.ending.why().is_some()
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    runtime.block_on(test);
}

#[test]
fn a_head_has_all_of_its_time_whenever_the_clock_was_looked_at() {
    block_on(async {
        let (link, client, clock) = connected();
        clock.advance(Duration::from_millis(400));
        send(&link, &client, "GET /").await;
        assert!(!is_overdue(&link, &clock, 400) && !is_overdue(&link, &clock, 400));
        assert!(!is_overdue(&link, &clock, TIMEOUT_MS - 800), "exactly its time");
        assert!(is_overdue(&link, &clock, 1));
    });
}

#[test]
fn a_body_has_all_of_its_time_whenever_the_clock_was_looked_at() {
    block_on(async {
        let (link, client, clock) = connected();
        send(&link, &client, "PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\n").await;
        clock.advance(Duration::from_millis(400));
        link.body_begins();
        assert!(!is_overdue(&link, &clock, 400) && !is_overdue(&link, &clock, 400));
        assert!(!is_overdue(&link, &clock, TIMEOUT_MS - 800), "exactly its time");
        assert!(is_overdue(&link, &clock, 1));
    });
}
