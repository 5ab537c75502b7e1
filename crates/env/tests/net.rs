//! What every network must do, on the real one and on the simulated one, and what the simulated one does to programs.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use ladoga_env::real::RealNet;
use ladoga_env::sim::{SimHost, SimNet};
use ladoga_env::{KeepAlive, Listener, Net, Stream};
use tokio::io::{AsyncWrite, ReadBuf};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

const KEEP_ALIVE: KeepAlive = KeepAlive {
    asks_after: Duration::from_secs(5),
    asks_every: Duration::from_secs(2),
    unheard_max: Duration::from_secs(15),
};

fn simulated<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test)
}

fn on_both<F: Future<Output = ()>>(test: impl Fn(Box<dyn Net>) -> F) {
    let host = SimNet::new(1).add_host("localhost", Ipv4Addr::LOCALHOST.into());
    simulated(test(Box::new(host)));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test(Box::new(RealNet::new())));
}

async fn both<T, U>(one: impl Future<Output = T>, other: impl Future<Output = U>) -> (T, U) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut of_one, mut of_other) = (None, None);
    poll_fn(|context| {
        if of_one.is_none()
            && let Poll::Ready(found) = one.as_mut().poll(context)
        {
            of_one = Some(found);
        }
        if of_other.is_none()
            && let Poll::Ready(found) = other.as_mut().poll(context)
        {
            of_other = Some(found);
        }
        if of_one.is_some() && of_other.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (of_one.unwrap(), of_other.unwrap())
}

async fn write(stream: &mut dyn Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// What can be read, at least one byte; nothing at the end.
async fn read(stream: &mut dyn Stream) -> io::Result<Vec<u8>> {
    let mut bytes = [0; 4096];
    let mut buffer = ReadBuf::new(&mut bytes);
    poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer)).await?;
    Ok(buffer.filled().to_vec())
}

async fn read_bytes(stream: &mut dyn Stream, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < count {
        let more = read(stream).await.unwrap();
        assert!(!more.is_empty(), "{} of {count} bytes", all.len());
        all.extend(more);
    }
    all
}

async fn accept(listener: &mut dyn Listener) -> io::Result<Box<dyn Stream>> {
    poll_fn(|context| listener.poll_accept(context)).await
}

async fn pair(net: &dyn Net) -> (Box<dyn Listener>, Box<dyn Stream>, Box<dyn Stream>) {
    let mut listener = net.listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let connecting = net.connect(&[listener.address().unwrap()]);
    let (dialed, accepted) = both(connecting, accept(&mut *listener)).await;
    (listener, dialed.unwrap(), accepted.unwrap())
}

fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
    result.map(drop).unwrap_err().kind()
}

// What every network must do.

#[test]
fn what_is_written_is_read_in_order_in_both_directions_however_much_it_is() {
    on_both(async |net| {
        let (_listener, mut dialed, mut accepted) = pair(&*net).await;
        assert_eq!(dialed.peer_address().unwrap().ip(), accepted.peer_address().unwrap().ip());
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let (written, read) =
            both(write(&mut *dialed, &bytes), read_bytes(&mut *accepted, bytes.len())).await;
        written.unwrap();
        assert!(read == bytes);
        write(&mut *accepted, b"back").await.unwrap();
        assert_eq!(read_bytes(&mut *dialed, 4).await, b"back");
    });
}

#[test]
fn who_reads_slowly_holds_up_who_writes() {
    on_both(async |net| {
        let (_listener, mut dialed, mut accepted) = pair(&*net).await;
        let bytes = vec![7; 64 << 20];
        let written = timeout(Duration::from_millis(300), write(&mut *dialed, &bytes)).await;
        assert!(written.is_err(), "64 MiB that nobody reads were taken");
        assert!(!read(&mut *accepted).await.unwrap().is_empty());
    });
}

#[test]
fn an_end_that_is_dropped_or_shut_ends_the_stream_after_what_was_written() {
    on_both(async |net| {
        let (_listener, mut dialed, mut accepted) = pair(&*net).await;
        write(&mut *dialed, b"last").await.unwrap();
        poll_fn(|context| Pin::new(&mut dialed).poll_shutdown(context)).await.unwrap();
        assert_eq!(read_bytes(&mut *accepted, 4).await, b"last");
        assert_eq!(read(&mut *accepted).await.unwrap(), b"");
        // The other direction stays.
        write(&mut *accepted, b"answer").await.unwrap();
        drop(accepted);
        assert_eq!(read_bytes(&mut *dialed, 6).await, b"answer");
        assert_eq!(read(&mut *dialed).await.unwrap(), b"");
        assert_eq!(kind(write(&mut *dialed, b"more").await), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn where_nobody_listens_a_dial_is_refused_and_the_next_address_is_tried() {
    on_both(async |net| {
        let mut listener = net.listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let open = listener.address().unwrap();
        let gone = net.listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let closed = gone.address().unwrap();
        drop(gone);
        assert_eq!(kind(net.connect(&[closed]).await), io::ErrorKind::ConnectionRefused);
        let (dialed, accepted) = both(net.connect(&[closed, open]), accept(&mut *listener)).await;
        assert_eq!(dialed.unwrap().peer_address().unwrap(), open);
        drop(accepted);
        assert_eq!(kind(net.listen(open).map(drop)), io::ErrorKind::AddrInUse);
    });
}

#[test]
fn unread_bytes_of_an_end_that_is_dropped_reset_the_other() {
    on_both(async |net| {
        let (_listener, mut dialed, accepted) = pair(&*net).await;
        write(&mut *dialed, b"unread").await.unwrap();
        sleep(Duration::from_millis(50)).await;
        drop(accepted);
        assert_eq!(kind(read(&mut *dialed).await), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_name_is_looked_up() {
    on_both(async |net| {
        let (tell, told) = std::sync::mpsc::channel();
        net.resolve("localhost", 7, Box::new(move |found| tell.send(found).unwrap())).unwrap();
        let found = told.recv().unwrap().unwrap();
        assert!(found.contains(&(Ipv4Addr::LOCALHOST, 7).into()) || found.iter().all(SocketAddr::is_ipv6));
    });
}

// What the simulated one does.

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

struct Two {
    net: SimNet,
    a: SimHost,
    listener: Box<dyn Listener>,
    dialed: Box<dyn Stream>,
    accepted: Box<dyn Stream>,
}

async fn two() -> Two {
    let net = SimNet::new(7);
    let (a, b) = (net.add_host("a", A), net.add_host("b", B));
    let mut listener = b.listen((B, 80).into()).unwrap();
    let (dialed, accepted) = both(a.connect(&[(B, 80).into()]), accept(&mut *listener)).await;
    let (dialed, accepted) = (dialed.unwrap(), accepted.unwrap());
    dialed.keep_alive(&KEEP_ALIVE).unwrap();
    accepted.keep_alive(&KEEP_ALIVE).unwrap();
    Two { net, a, listener, dialed, accepted }
}

async fn nothing_comes(stream: &mut dyn Stream, seconds: u64) {
    let read = timeout(Duration::from_secs(seconds), read(stream)).await;
    assert!(read.is_err(), "{read:?}");
}

#[test]
fn a_cut_goes_one_way_and_what_it_holds_back_arrives_once_it_has_healed() {
    simulated(async {
        let Two { net, mut dialed, mut accepted, .. } = two().await;
        net.cut(A, B);
        write(&mut *dialed, b"held").await.unwrap();
        write(&mut *accepted, b"other").await.unwrap();
        assert_eq!(read_bytes(&mut *dialed, 5).await, b"other");
        nothing_comes(&mut *accepted, 10).await;
        net.heal(A, B);
        write(&mut *dialed, b"next").await.unwrap();
        assert_eq!(read_bytes(&mut *accepted, 8).await, b"heldnext");
    });
}

#[test]
fn a_cut_that_lasts_ends_the_connection_on_both_sides_by_silence() {
    simulated(async {
        let Two { net, mut dialed, mut accepted, .. } = two().await;
        let began = Instant::now();
        net.cut(B, A);
        write(&mut *dialed, b"unacknowledged").await.unwrap();
        assert_eq!(read_bytes(&mut *accepted, 14).await, b"unacknowledged");
        assert_eq!(kind(read(&mut *accepted).await), io::ErrorKind::TimedOut);
        assert_eq!(kind(read(&mut *dialed).await), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 20);
    });
}

#[test]
fn a_host_that_loses_its_power_says_nothing_and_knows_of_no_connection_once_it_is_back() {
    simulated(async {
        let Two { net, mut dialed, accepted, listener, .. } = two().await;
        net.power_off(B);
        drop((accepted, listener));
        write(&mut *dialed, b"to nobody").await.unwrap();
        nothing_comes(&mut *dialed, 10).await;
        net.power_on(B);
        assert_eq!(kind(read(&mut *dialed).await), io::ErrorKind::ConnectionReset);
        drop(dialed);
        assert_eq!(net.connections(), 0);
    });
}

#[test]
fn a_dial_over_a_cut_is_asked_again_and_comes_about_later() {
    simulated(async {
        let Two { net, a, mut listener, .. } = two().await;
        net.cut(B, A);
        let began = Instant::now();
        let heals = async {
            sleep(Duration::from_secs(2)).await;
            net.heal(B, A);
        };
        let ((dialed, ()), _accepted) =
            both(both(a.connect(&[(B, 80).into()]), heals), accept(&mut *listener)).await;
        dialed.unwrap();
        assert_eq!(began.elapsed().as_secs(), 3);
        net.cut(A, B);
        assert_eq!(kind(a.connect(&[(B, 80).into()]).await), io::ErrorKind::TimedOut);
    });
}

#[test]
fn a_dial_that_is_given_up_leaves_nothing_behind() {
    simulated(async {
        let Two { net, a, mut listener, dialed, accepted } = two().await;
        drop((dialed, accepted));
        net.set_delay(Duration::from_millis(500), Duration::from_millis(500));
        let given_up = timeout(Duration::from_millis(600), a.connect(&[(B, 80).into()])).await;
        assert!(given_up.is_err());
        let mut accepted = accept(&mut *listener).await.unwrap();
        assert_eq!(read(&mut *accepted).await.unwrap(), b"");
        drop(accepted);
        assert_eq!(net.connections(), 0);
    });
}

#[test]
fn lost_packets_hold_up_their_own_stream_and_no_other() {
    simulated(async {
        let Two { net, a, mut listener, mut dialed, mut accepted } = two().await;
        let (other, other_accepted) = both(a.connect(&[(B, 80).into()]), accept(&mut *listener)).await;
        let (mut other, mut other_accepted) = (other.unwrap(), other_accepted.unwrap());
        let began = Instant::now();
        net.set_loss(999);
        write(&mut *dialed, b"late").await.unwrap();
        net.set_loss(0);
        write(&mut *dialed, b"behind").await.unwrap();
        write(&mut *other, b"free").await.unwrap();
        assert_eq!(read_bytes(&mut *other_accepted, 4).await, b"free");
        assert!(began.elapsed() < Duration::from_millis(10));
        assert_eq!(read_bytes(&mut *accepted, 10).await, b"latebehind");
        assert!(began.elapsed() > Duration::from_secs(10), "{:?}", began.elapsed());
    });
}

#[test]
fn a_path_is_slow_one_way_and_what_is_behind_on_the_same_stream_waits() {
    simulated(async {
        let Two { net, mut dialed, mut accepted, .. } = two().await;
        let (began, slow) = (Instant::now(), Duration::from_millis(700));
        net.slow_down(A, B, slow);
        write(&mut *dialed, b"late").await.unwrap();
        write(&mut *accepted, b"soon").await.unwrap();
        assert_eq!(read_bytes(&mut *dialed, 4).await, b"soon");
        assert!(began.elapsed() < Duration::from_millis(10));
        net.speed_up();
        write(&mut *dialed, b"behind").await.unwrap();
        assert_eq!(read_bytes(&mut *accepted, 10).await, b"latebehind");
        assert_eq!(began.elapsed(), slow);
        write(&mut *dialed, b"soon").await.unwrap();
        assert_eq!(read_bytes(&mut *accepted, 4).await, b"soon");
        assert!(began.elapsed() < slow + Duration::from_millis(10));
    });
}

#[test]
fn a_resolver_may_be_silent() {
    simulated(async {
        let Two { net, a, .. } = two().await;
        let (tell, told) = std::sync::mpsc::channel();
        net.set_resolver(false);
        let silent = tell.clone();
        a.resolve("b", 80, Box::new(move |found| silent.send(found).unwrap())).unwrap();
        assert!(told.try_recv().is_err());
        net.set_resolver(true);
        a.resolve("c", 80, Box::new(move |found| tell.send(found).unwrap())).unwrap();
        assert_eq!(kind(told.recv().unwrap()), io::ErrorKind::NotFound);
    });
}

#[test]
fn the_same_seed_takes_the_same_time() {
    let run = |seed| {
        simulated(async move {
            let net = SimNet::new(seed);
            let (a, b) = (net.add_host("a", A), net.add_host("b", B));
            net.set_loss(300);
            net.set_delay(Duration::ZERO, Duration::from_millis(20));
            let mut listener = b.listen((B, 80).into()).unwrap();
            let (dialed, accepted) = both(a.connect(&[(B, 80).into()]), accept(&mut *listener)).await;
            let (mut dialed, mut accepted) = (dialed.unwrap(), accepted.unwrap());
            let began = Instant::now();
            for _ in 0..20 {
                write(&mut *dialed, b"ping").await.unwrap();
                read_bytes(&mut *accepted, 4).await;
            }
            began.elapsed()
        })
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
