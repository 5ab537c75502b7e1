use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ladoga_runtime::LoopContext;
use tokio::net::TcpStream;

use super::acceptor::{Intake, accept, receive};
use super::connections::Connections;
use super::protocol::Protocol;
use super::sweeper::sweep;
use super::threads::{Shared, Stage};

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
    pub(super) fn serve(&self, socket: TcpStream) {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone before it was served");
        }
        let connection = self.protocol.accept(socket);
        let entry = self.connections.enter(Rc::<P::Connection>::clone(&connection));
        let protocol = Rc::clone(&self.protocol);
        tokio::task::spawn_local(async move {
            protocol.serve(connection).await;
            drop(entry);
        });
    }

    /// Serves until the node is to stop, and the requests in flight have ended or had their time. Who comes after
    /// that is told.
    pub(super) async fn run(self: Rc<Self>, intake: Intake) {
        let mut stage = intake.stage;
        let supervisor = &self.context.supervisor;
        for listener in intake.listeners {
            supervisor.spawn_local("accept", accept(Rc::clone(&self), listener));
        }
        supervisor.spawn_local("receive", receive(Rc::clone(&self), intake.handed_over));
        supervisor.spawn_local("sweep", sweep(Rc::clone(&self)));
        // The sender lives as long as the server; without one there is nobody to serve for.
        let _ = stage.wait_for(|stage| *stage != Stage::Running).await;
        self.connections.drain(Duration::from_millis(self.shared.limits.drain_timeout_ms)).await;
        let _ = intake.drained.send(()).await;
        // Whoever waits for all loops notices by that where one is no more.
        drop(intake.drained);
        let _ = stage.wait_for(|stage| *stage == Stage::Stopped).await;
    }
}
