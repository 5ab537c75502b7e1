use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ladoga_env::{Connecting, Net, Stream};

/// How long it is waited until it is tried once more beside.
const DIAL_EVERY_MS: u64 = 100;
/// Attempts that are waited for at a time; more than that many pauses, no network takes.
const DIALS_MAX: usize = 10;

/// Connects to a peer at its addresses, and takes the first attempt that succeeds or is refused.
///
/// If the first packet of an attempt is lost, the system sends it again after a second, three, seven, and so on, even if the
/// network works again meanwhile. New requests would have to wait for that attempt too, so another one is started beside it.
pub(crate) async fn dial(net: &dyn Net, addresses: &[SocketAddr]) -> io::Result<Box<dyn Stream>> {
    let dial = || -> Connecting { net.connect(addresses) };
    let pause = Duration::from_millis(DIAL_EVERY_MS);
    let mut dials = VecDeque::from([dial()]);
    let mut next = pin!(tokio::time::sleep(pause));
    poll_fn(|context| {
        loop {
            for dial in &mut dials {
                if let Poll::Ready(connected) = dial.as_mut().poll(context) {
                    return Poll::Ready(connected);
                }
            }
            if next.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            next.as_mut().reset(tokio::time::Instant::now() + pause);
            if dials.len() == DIALS_MAX {
                dials.pop_front();
            }
            dials.push_back(dial());
        }
    })
    .await
}
