use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_runtime::{LoopContext, Metrics, Supervisor, Traces};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};

use super::acceptor::{accept, receive};
use super::balance::Shares;
use super::event_loop::EventLoop;
use super::limits::Limits;
use super::listener::{ListenError, listen};
use super::placement::Placement;
use super::protocol::Protocol;
use super::shared::{HandedOvers, Intake, Shared, Stage};
use super::sweeper::sweep;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system has no more threads or descriptors.
    #[error("cannot start an event loop: {0}")]
    EventLoop(#[from] io::Error),
}

/// What a server is started with.
pub struct ServerConfig {
    /// Where clients connect, one list for each entrance; port 0 takes a free one.
    pub listen: Vec<Vec<SocketAddr>>,
    /// How many event loops there are, at least 1.
    pub event_loops: usize,
    /// Which of them serve.
    pub placement: Placement,
    /// The bounds of its connections.
    pub limits: Limits,
    /// By which it goes.
    pub clock: Arc<dyn Clock>,
    /// The figures of each event loop.
    pub metrics: Arc<Metrics>,
    /// Told of an event loop that panics.
    pub supervisor: Supervisor,
    /// Where spans go, if traces are recorded.
    pub traces: Option<Arc<Traces>>,
}

/// A running server.
///
/// Protocol: `start drain? stop`.
pub struct Server {
    stage: watch::Sender<Stage>,
    drained: mpsc::Receiver<()>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<Vec<SocketAddr>>,
}

impl Server {
    /// Listens. `protocol` is called once on each event loop, with its number, within its runtime.
    pub fn start<P: Protocol>(
        config: ServerConfig,
        protocol: impl Fn(usize, &Rc<LoopContext>) -> P + Clone + Send + 'static,
    ) -> Result<Server, StartError> {
        let (addresses, mut listeners) = listen_on_all(&config)?;
        let ServerConfig { event_loops, placement, limits, clock, metrics, supervisor, traces, .. } = config;
        let (stage, _) = watch::channel(Stage::Running);
        // Bounded by the number of connections: each is counted before it is handed over.
        let (hand_overs, receivers): (Vec<_>, Vec<_>) =
            (0..event_loops).map(|_| mpsc::unbounded_channel()).unzip();
        let serving = if placement == Placement::AsLoadAsks { 1 } else { event_loops };
        let shares = Shares::new(event_loops, serving);
        let shared = Arc::new(Shared { limits, metrics, hand_overs, shares, placement });
        let (drained, when_drained) = mpsc::channel(event_loops);
        let threads = Vec::with_capacity(event_loops);
        let mut server = Server { stage, drained: when_drained, threads, addresses };
        for (index, handed_over) in receivers.into_iter().enumerate() {
            let listeners = std::mem::take(&mut listeners[index]);
            let (shared, clock, supervisor_of_loop) =
                (Arc::clone(&shared), Arc::clone(&clock), supervisor.clone());
            let (protocol, traces) = (protocol.clone(), traces.clone());
            let event_loop = move || {
                let metrics = Arc::clone(&shared.metrics.loops[index]);
                clock.serve_first();
                let context = LoopContext::new(index, clock, metrics, supervisor_of_loop).with_traces(traces);
                let context = Rc::new(context);
                let protocol = Rc::new(protocol(index, &context));
                Rc::new(EventLoop::new(shared, context, protocol))
            };
            server.start_event_loop(
                index,
                &supervisor,
                event_loop,
                (listeners, handed_over, drained.clone()),
            )?;
        }
        Ok(server)
    }

    fn start_event_loop<P: Protocol>(
        &mut self,
        index: usize,
        supervisor: &Supervisor,
        event_loop: impl FnOnce() -> Rc<EventLoop<P>> + Send + 'static,
        (listeners, handed_over, drained): (LoopListeners, HandedOvers<P::Known>, mpsc::Sender<()>),
    ) -> io::Result<()> {
        let stage = self.stage.subscribe();
        let (report, reported) = std::sync::mpsc::channel();
        let body = move || {
            let runtime =
                match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(report.send(Err(error))),
                };
            runtime.block_on(async {
                let listeners = listeners
                    .into_iter()
                    .map(|(listener, entrance)| Ok((tokio::net::TcpListener::from_std(listener)?, entrance)));
                match listeners.collect::<io::Result<_>>() {
                    Ok(listeners) => {
                        let _ = report.send(Ok(()));
                        let intake = Intake { listeners, handed_over, stage, drained };
                        run(event_loop(), intake).await;
                    }
                    Err(error) => drop(report.send(Err(error))),
                }
            });
        };
        self.threads.push(supervisor.spawn(format!("event-loop-{index}"), body)?);
        reported.recv().map_err(io::Error::other)?
    }

    /// Where it listens, by entrance.
    pub fn addresses(&self) -> &[Vec<SocketAddr>] {
        &self.addresses
    }

    /// Ends the requests in flight. Requests that come from now on are answered that the node is stopping.
    pub fn drain(&mut self) {
        self.stage.send_replace(Stage::Draining);
        for _ in 0..self.threads.len() {
            // None if an event loop panicked: then there is nothing to wait for.
            let _ = self.drained.blocking_recv();
        }
    }

    /// Ends the event loops, and with them all connections.
    pub fn stop(&mut self) {
        self.stage.send_replace(Stage::Stopped);
        for thread in self.threads.drain(..) {
            // If the loop panicked, the supervisor has reported it.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Those of one loop, each with the entrance that it is one of.
type LoopListeners = Vec<(std::net::TcpListener, usize)>;
type Listeners = Vec<LoopListeners>;

/// The addresses of each entrance as they are, and for each event loop a listener on each.
fn listen_on_all(config: &ServerConfig) -> Result<(Vec<Vec<SocketAddr>>, Listeners), ListenError> {
    let mut by_loop: Listeners = (0..config.event_loops).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for (entrance, wanted) in config.listen.iter().enumerate() {
        addresses.push(listen_at(entrance, wanted, &mut by_loop)?);
    }
    Ok((addresses, by_loop))
}

/// A name may stand for addresses that this machine does not have, as `localhost` does where there is no IPv6: one that it has is
/// enough.
fn listen_at(
    entrance: usize,
    wanted: &[SocketAddr],
    by_loop: &mut Listeners,
) -> Result<Vec<SocketAddr>, ListenError> {
    let (mut addresses, mut missing) = (Vec::new(), None);
    for &wanted in wanted {
        let listeners = match listen(wanted, by_loop.len()) {
            Ok(listeners) => listeners,
            Err(error) if error.is_no_such_address() => {
                missing = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        addresses.push(listeners[0].local_addr().map_err(|error| ListenError { address: wanted, error })?);
        for (listener, own) in listeners.into_iter().zip(&mut *by_loop) {
            own.push((listener, entrance));
        }
    }
    match missing {
        Some(error) if addresses.is_empty() => Err(error),
        _ => Ok(addresses),
    }
}

/// Serves until the node is to stop, and the requests in flight have ended or timed out. Requests that come later are answered
/// that the node is stopping.
async fn run<P: Protocol>(event_loop: Rc<EventLoop<P>>, intake: Intake<P::Known>) {
    let mut stage = intake.stage;
    let supervisor = &event_loop.context.supervisor;
    for listener in intake.listeners {
        supervisor.spawn_local("accept", accept(Rc::clone(&event_loop), listener));
    }
    supervisor.spawn_local("receive", receive(Rc::clone(&event_loop), intake.handed_over));
    supervisor.spawn_local("sweep", sweep(Rc::clone(&event_loop)));
    // The sender lives as long as the server; without one there is nobody to serve for.
    let _ = stage.wait_for(|stage| *stage != Stage::Running).await;
    let drain_timeout = Duration::from_millis(event_loop.shared.limits.drain_timeout_ms);
    event_loop.connections.drain(drain_timeout).await;
    let _ = intake.drained.send(()).await;
    // Closing the channel tells `drain` that this loop is done.
    drop(intake.drained);
    let _ = stage.wait_for(|stage| *stage == Stage::Stopped).await;
    event_loop.connections.drain_rest().await;
}
