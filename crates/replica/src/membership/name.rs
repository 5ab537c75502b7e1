use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ladoga_env::{Net, Resolved};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The address of a peer: its host, as a name that may have to be resolved, and its port.
///
/// A resolver may hang for half a minute. However many connections are attempted meanwhile, by whichever event loop, one thread
/// waits for it; and no address is kept for longer than the attempt that asked for it.
#[derive(Debug)]
pub(crate) struct PeerName {
    host: String,
    port: u16,
    look_up: LookUp,
}

impl PeerName {
    pub(crate) fn new(host: &str, port: u16) -> PeerName {
        PeerName { host: host.to_owned(), port, look_up: LookUp::default() }
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Its addresses now.
    pub(crate) async fn addresses(&self, net: &dyn Net) -> io::Result<Addresses> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok([SocketAddr::new(address, self.port)].into());
        }
        self.look_up.join(|found| net.resolve(&self.host, self.port, found)).await
    }

    /// Whether the resolver has still to answer.
    pub(crate) fn is_looked_up(&self) -> bool {
        self.look_up.is_under_way()
    }
}

type Addresses = Arc<[SocketAddr]>;
/// (An error of the system cannot be given to many.)
type Found = Result<Addresses, (io::ErrorKind, String)>;

/// A look-up that all who want one join.
#[derive(Debug, Default)]
struct LookUp(Mutex<Option<watch::Receiver<Option<Found>>>>);

impl LookUp {
    /// The result of the look-up in progress; `begin` starts one if there is none.
    async fn join(&self, begin: impl FnOnce(Resolved) -> io::Result<()>) -> io::Result<Addresses> {
        let mut found = self.begun(begin)?;
        let Ok(found) = found.wait_for(Option::is_some).await else {
            return Err(io::Error::other("the look-up of its name panicked"));
        };
        let found = found.clone().expect("it was waited for");
        found.map_err(|(kind, line)| io::Error::new(kind, line))
    }

    fn begun(
        &self,
        begin: impl FnOnce(Resolved) -> io::Result<()>,
    ) -> io::Result<watch::Receiver<Option<Found>>> {
        let mut known = self.0.lock();
        if let Some(found) = known.as_ref().filter(|found| is_under_way(found)) {
            return Ok(found.clone());
        }
        let (tell, found) = watch::channel(None);
        begin(Box::new(move |found| {
            let found = found.map(Addresses::from).map_err(|error| (error.kind(), error.to_string()));
            // The tasks that waited may have given up.
            tell.send_replace(Some(found));
        }))?;
        *known = Some(found.clone());
        Ok(found)
    }

    fn is_under_way(&self) -> bool {
        self.0.lock().as_ref().is_some_and(is_under_way)
    }
}

/// (If the sender is gone without a result, the thread that looked it up has panicked.)
fn is_under_way(found: &watch::Receiver<Option<Found>>) -> bool {
    found.borrow().is_none() && found.has_changed().is_ok()
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use ladoga_env::real::RealNet;

    use super::*;

    fn addresses() -> Vec<SocketAddr> {
        [SocketAddr::from(([10, 0, 0, 1], 8080))].into()
    }

    /// Looks up as `look` does, on a thread.
    fn on_a_thread(
        look: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> impl FnOnce(Resolved) -> io::Result<()> {
        |resolved| {
            std::thread::spawn(move || resolved(look()));
            Ok(())
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    /// Each attempt to connect started a look-up, ten times a second while the resolver hung.
    #[test]
    fn a_resolver_that_hangs_is_waited_for_once() {
        let look_up = LookUp::default();
        let begun = Arc::<AtomicUsize>::default();
        let hangs = Arc::<Mutex<()>>::default();
        let join = || {
            let (begun, hangs) = (Arc::clone(&begun), Arc::clone(&hangs));
            look_up.join(on_a_thread(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                drop(hangs.lock());
                Ok(addresses())
            }))
        };
        let held = hangs.lock();
        // Attempts that are given up, and some that wait.
        for _ in 0..10 {
            assert!(now(join()).is_pending());
        }
        let (mut first, mut second) = (Box::pin(join()), Box::pin(join()));
        assert!(now(first.as_mut()).is_pending() && now(second.as_mut()).is_pending());
        assert!(look_up.is_under_way());
        drop(held);
        for joined in [first, second] {
            assert_eq!(block_on(joined).expect("addresses")[..], addresses());
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        assert!(!look_up.is_under_way());
        // What was found is not kept.
        assert_eq!(block_on(join()).expect("addresses")[..], addresses());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_look_up_that_panics_fails_those_who_wait_and_no_later_one() {
        let look_up = LookUp::default();
        block_on(look_up.join(on_a_thread(|| panic!("on purpose")))).expect_err("a panic");
        assert_eq!(
            block_on(look_up.join(on_a_thread(|| Ok(addresses())))).expect("addresses")[..],
            addresses()
        );
    }

    #[test]
    fn an_address_is_not_looked_up() {
        for host in ["127.0.0.1", "::1"] {
            let Poll::Ready(Ok(found)) = now(PeerName::new(host, 7).addresses(&RealNet::new())) else {
                panic!("{host}")
            };
            assert_eq!(found.iter().map(|one| one.ip().to_string()).collect::<Vec<_>>(), [host]);
        }
    }
}
