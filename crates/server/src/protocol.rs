use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;

use tokio::net::TcpStream;

/// What a protocol makes of the connections of one event loop.
pub trait Protocol: 'static {
    /// One connection.
    type Connection: Connection;
    /// What is known of a connection, for the event loop at which it goes on.
    type Known: Send + 'static;

    /// Takes a connection over from a client at this address, which came by this entrance: the number of its list in
    /// [`crate::ServerConfig::listen`]. If it was served by another event loop before, there is what that knew of it.
    fn accept(
        &self,
        socket: (TcpStream, IpAddr),
        entrance: usize,
        known: Option<Self::Known>,
    ) -> Rc<Self::Connection>;

    /// Serves a connection until it ends, or goes on at another event loop, which then accepts its socket.
    fn serve(
        self: Rc<Self>,
        connection: Rc<Self::Connection>,
    ) -> impl Future<Output = Option<Moving<Self::Known>>>;

    /// What a connection that came by this entrance is told if it is not served, because of this bound.
    fn refusal(&self, bound: &str, entrance: usize) -> Vec<u8>;

    /// Time went by: called every few milliseconds to a quarter of a second.
    fn time_passes(&self);
}

/// A connection that goes on at another event loop.
pub struct Moving<K> {
    /// Its socket.
    pub socket: std::net::TcpStream,
    /// What is known of it.
    pub known: K,
    /// The number of that loop. `None`: the one with the fewest connections.
    pub to: Option<usize>,
}

/// A connection, as its event loop looks after it.
pub trait Connection: 'static {
    /// Ends the connection if it has timed out.
    fn sweep(&self, now_ms: u64);

    /// The node is to stop: its requests in flight end, and then it does.
    fn begin_to_drain(&self);

    /// It is to go on at another event loop, as soon as it waits for a request. Answers whether it ever will.
    fn move_on(&self) -> bool;

    /// Ends it, whatever is under way.
    fn cut_off(&self);

    /// Whether it was accepted while the node was draining: then it is answered, but the node does not wait for it.
    fn is_late(&self) -> bool;
}
