//! A connection that another node has made: whether it is one, and the frames that it sends and takes.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use ladoga_tls::{Chain, NodeTls, NotAPeer};

use super::link::Link;
use super::socket::Departure;

impl Link {
    /// Whether whoever has made it is one of these nodes, by the certificate that was shown.
    pub(crate) fn check_peer(&self, tls: &NodeTls, hosts: &[&str]) -> Result<(), NotAPeer> {
        self.socket.with_certificates(|shown| tls.check_peer(shown, hosts))
    }

    /// Whether the certificate that was shown is for this host.
    pub fn is_certified_for(&self, host: &str) -> bool {
        let is_for = |shown: Option<Chain<'_>>| shown.is_some_and(|chain| ladoga_tls::is_for(chain, host));
        self.socket.with_certificates(is_for)
    }

    /// Whether it is the connection of another node.
    pub(crate) fn is_peers(&self) -> bool {
        self.http().is_upgraded()
    }

    /// Has another event loop go on with what is to be a peer's connection, of which nothing was answered yet. `None` if there is no
    /// descriptor for it.
    pub(crate) fn depart_as_peers(&self) -> Option<(Departure, BytesMut)> {
        let departure = self.socket.depart()?;
        let mut http = self.http();
        http.upgrade(self.now_ms());
        Some((departure, http.take_input()))
    }

    /// Goes on with what has become a peer's connection at another event loop, which has read this much ahead.
    pub(crate) fn arrives_as_peers(&self, ahead: &[u8]) {
        let mut http = self.http();
        http.upgrade(self.now_ms());
        http.receive(ahead, || self.now_ms());
    }

    /// The connection is a peer's from now on.
    pub(crate) fn peer_begins(&self) {
        self.http().upgrade(self.now_ms());
        if let Err(error) = self.socket.keep_alive() {
            tracing::debug!(%error, "a peer's connection was gone before it was served");
        }
    }

    /// Writes what a peer is answered.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_behind(context, bytes)
    }

    /// How many bytes were written that the peer has not acknowledged; none on a connection that is gone.
    pub fn unacknowledged_bytes(&self) -> u64 {
        self.socket.unacknowledged_bytes()
    }

    /// Reads what a peer sent, at most `bytes_max` and first of all what was read ahead; answers how many bytes, 0 at the end.
    pub fn poll_take(
        &self,
        context: &mut Context<'_>,
        input: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let ahead = self.http().take_input();
        if !ahead.is_empty() {
            input.extend_from_slice(&ahead);
            return Poll::Ready(Ok(ahead.len()));
        }
        let mut scratch = self.core.scratch();
        let room = bytes_max.min(scratch.len());
        let count = ready!(self.socket.poll_read(context, &mut scratch[..room]))?;
        input.extend_from_slice(&scratch[..count]);
        Poll::Ready(Ok(count))
    }
}
