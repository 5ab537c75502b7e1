use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_runtime::LoopContext;
use tokio::net::TcpStream;

use super::connections::Connections;
use super::protocol::{Moving, Protocol};
use super::shared::{HandedOver, Shared};

/// One thread's share of the server.
pub(super) struct EventLoop<P: Protocol> {
    pub(super) context: Rc<LoopContext>,
    pub(super) shared: Arc<Shared<P::Known>>,
    pub(super) connections: Rc<Connections>,
    pub(super) protocol: Rc<P>,
}

impl<P: Protocol> EventLoop<P> {
    pub(super) fn new(
        shared: Arc<Shared<P::Known>>,
        context: Rc<LoopContext>,
        protocol: Rc<P>,
    ) -> EventLoop<P> {
        let connections = Rc::new(Connections::new(Rc::clone(&context)));
        EventLoop { context, shared, connections, protocol }
    }

    /// Serves a connection that was counted before.
    pub(super) fn serve(
        self: &Rc<Self>,
        (socket, from): (TcpStream, IpAddr),
        entrance: usize,
        known: Option<P::Known>,
    ) {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone before it was served");
        }
        let connection = self.protocol.accept((socket, from), entrance, known);
        let entry = self.connections.enter(Rc::<P::Connection>::clone(&connection));
        let event_loop = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let moving = Rc::clone(&event_loop.protocol).serve(connection).await;
            if let Some(moving) = moving {
                event_loop.hand_on(moving, (from, entrance));
                entry.moves();
            }
        });
    }

    /// Has another loop serve a connection that goes on elsewhere, or this one if it is the one.
    fn hand_on(
        self: &Rc<Self>,
        Moving { socket, known, to }: Moving<P::Known>,
        (from, entrance): (IpAddr, usize),
    ) {
        let to = to.unwrap_or_else(|| self.shared.least_loaded().0);
        self.shared.metrics.loops[to].moved_here();
        let handed_over = HandedOver { socket, from, entrance, known: Some(known) };
        if self.shared.hand_overs[to].send(handed_over).is_err() {
            // That loop has ended, and so does the node.
            self.shared.metrics.loops[to].disconnected();
        }
    }
}
