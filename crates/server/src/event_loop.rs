use std::rc::Rc;
use std::sync::Arc;

use ladoga_runtime::LoopContext;
use tokio::net::TcpStream;

use super::connections::Connections;
use super::protocol::Protocol;
use super::shared::Shared;

/// One thread's share of the server.
pub(super) struct EventLoop<P> {
    pub(super) context: Rc<LoopContext>,
    pub(super) shared: Arc<Shared>,
    pub(super) connections: Rc<Connections>,
    pub(super) protocol: Rc<P>,
}

impl<P: Protocol> EventLoop<P> {
    pub(super) fn new(shared: Arc<Shared>, context: Rc<LoopContext>, protocol: Rc<P>) -> EventLoop<P> {
        let connections = Rc::new(Connections::new(Rc::clone(&context)));
        EventLoop { context, shared, connections, protocol }
    }

    /// Serves a connection that was counted before.
    pub(super) fn serve(&self, socket: TcpStream, entrance: usize) {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone before it was served");
        }
        let connection = self.protocol.accept(socket, entrance);
        let entry = self.connections.enter(Rc::<P::Connection>::clone(&connection));
        let protocol = Rc::clone(&self.protocol);
        tokio::task::spawn_local(async move {
            protocol.serve(connection).await;
            drop(entry);
        });
    }
}
