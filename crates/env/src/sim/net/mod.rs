//! A simulated network: hosts, and TCP between them, with everything that TCP does to programs.
//!
//! - `state`: hosts, paths and listeners; `wire`: the connections
//! - `stream`: one end of a connection; `listener`: incoming connections; `dial`: outgoing ones

mod dial;
mod listener;
mod state;
mod stream;
mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::net::{Connecting, Listener, Net, Resolved, Stream};
use state::NetState;

use listener::SimListener;

/// A network of simulated hosts. Clones are the same network. Time is that of the tokio runtime in which its streams are
/// used, so a runtime with paused time runs it as fast as it can, and the same for the same seed.
///
/// - Bytes take the time that [`SimNet::set_delay`] sets. A lost packet is sent again, later each time, and holds up all bytes
///   behind it. Streams do not wait for each other.
/// - What a cut holds back arrives some time after it has healed, unless the connection died of it: one with
///   [`Stream::keep_alive`] does, as soon as nothing of the other end was heard for too long.
/// - A process that ends closes its streams by dropping them. A host that loses its power sends nothing: the other end finds
///   out by silence, or once the host is back and does not know the connection.
#[derive(Clone)]
pub struct SimNet {
    state: Arc<Mutex<NetState>>,
}

/// The network as one of its hosts reaches it.
#[derive(Clone)]
pub struct SimHost {
    state: Arc<Mutex<NetState>>,
    address: IpAddr,
}

impl SimNet {
    /// A network without hosts, on which everything works.
    pub fn new(seed: u64) -> SimNet {
        SimNet { state: Arc::new(Mutex::new(NetState::new(seed))) }
    }

    /// Adds a host, by this name and address, with its power on.
    pub fn add_host(&self, name: &str, address: IpAddr) -> SimHost {
        self.state.lock().add_host(name, address);
        SimHost { state: Arc::clone(&self.state), address }
    }

    /// From now on bytes take between `min` and `max` from one host to another.
    pub fn set_delay(&self, min: Duration, max: Duration) {
        assert!(min <= max, "a delay between {min:?} and {max:?}");
        self.state.lock().delay = (min, max);
    }

    /// From now on bytes take so long from one host to another, whatever is set for all, and none are lost. The other direction
    /// stays as it is, and so does what is under way.
    pub fn slow_down(&self, from: IpAddr, to: IpAddr, delay: Duration) {
        self.state.lock().slow_paths.insert((from, to), delay);
    }

    /// Ends that for all hosts. What is sent from now on stays behind what was sent before on the same connection.
    pub fn speed_up(&self) {
        self.state.lock().slow_paths.clear();
    }

    /// From now on so many packets in a thousand are lost.
    pub fn set_loss(&self, per_mille: u64) {
        assert!(per_mille < 1000, "some packets arrive");
        self.state.lock().loss_per_mille = per_mille;
    }

    /// From now on nothing gets from one host to another. The other direction stays as it is.
    pub fn cut(&self, from: IpAddr, to: IpAddr) {
        self.state.lock().cut(from, to);
    }

    /// From now on everything gets from one host to another again.
    pub fn heal(&self, from: IpAddr, to: IpAddr) {
        self.state.lock().heal(from, to);
    }

    /// Cuts the power of a host: its connections and listeners are gone, without a sign to the other ends.
    pub fn power_off(&self, host: IpAddr) {
        self.state.lock().power_off(host);
    }

    /// Gives the power back to a host, which knows of no connection.
    pub fn power_on(&self, host: IpAddr) {
        self.state.lock().power_on(host);
    }

    /// From now on the resolver answers, or does not. A name that is asked for while it does not is never resolved.
    pub fn set_resolver(&self, answers: bool) {
        self.state.lock().resolver_answers = answers;
    }

    /// Packets that were sent over connections so far.
    pub fn packets(&self) -> u64 {
        self.state.lock().packets
    }

    /// Connections of which at least one end is there.
    pub fn connections(&self) -> usize {
        self.state.lock().wires.len()
    }
}

impl SimHost {
    /// Its address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }
}

impl Net for SimHost {
    fn connect(&self, addresses: &[SocketAddr]) -> Connecting {
        let (state, from, addresses) = (Arc::clone(&self.state), self.address, addresses.to_vec());
        Box::pin(async move {
            let mut outcome = Err(io::ErrorKind::InvalidInput.into());
            for address in addresses {
                outcome = dial::dial(&state, from, address).await;
                if outcome.is_ok() {
                    break;
                }
            }
            outcome.map(|stream| Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let ip = if address.ip().is_unspecified() { self.address } else { address.ip() };
        if ip != self.address {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let address = self.state.lock().listen(ip, address.port())?;
        Ok(Box::new(SimListener::new(Arc::clone(&self.state), address)))
    }

    fn resolve(&self, host: &str, port: u16, resolved: Resolved) -> io::Result<()> {
        let found = {
            let mut state = self.state.lock();
            if !state.resolver_answers {
                state.unresolved.push(resolved);
                return Ok(());
            }
            state.names.get(host).copied()
        };
        let unknown =
            || io::Error::new(io::ErrorKind::NotFound, format!("{host} is not a host of this network"));
        resolved(found.map(|ip| vec![SocketAddr::new(ip, port)]).ok_or_else(unknown));
        Ok(())
    }
}
