//! One run of the load generator, without a script.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::cli::{Options, Target};
use crate::engine::{Crew, Ending, Fixed, Maker, Plan, Source, Station, Watcher};
use crate::error::{LabError, Outcome};
use crate::output::stderr_line;
use crate::schedule::connections_of;
use crate::stats;
use crate::workload::{Renderer, Workload, WorkloadRequests};
use ladoga_tls::client::{Stream, TlsClient, open_stream};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Tells that the run begins.
pub(crate) type Announce<'a> = &'a mut dyn FnMut();

/// What to send, where, and how.
pub(crate) struct Load<'a> {
    pub(crate) target: &'a Target,
    pub(crate) headers: &'a [(String, String)],
    /// None for one `GET` of the target's path again and again.
    pub(crate) workload: Option<Workload>,
    /// None for `value0`, `value1`, …
    pub(crate) value_bytes: Option<usize>,
    pub(crate) plan: Plan,
}

impl Load<'_> {
    pub(crate) fn run(
        &self,
        stop: &Arc<AtomicBool>,
        watcher: &mut dyn Watcher,
        announce: Announce<'_>,
    ) -> Outcome<stats::RunOutcome> {
        let tls = self.target.tls()?;
        let address = match reachable(&self.target.resolve()?, tls.as_ref()) {
            Ok(address) => address,
            Err(error) => {
                announce();
                return Ok(unreachable(self.target, &self.plan, error));
            }
        };
        let mut crew = Crew::muster(self.plan, self.makers(address, tls.as_ref())?, stop)?;
        crew.wait_ready()?;
        announce();
        let outcome = crew.go(watcher)?;
        crew.dismiss();
        Ok(outcome)
    }

    fn makers(&self, address: SocketAddr, tls: Option<&TlsClient>) -> Outcome<Vec<Box<dyn Maker>>> {
        let renderer =
            Renderer::new(&self.target.host_header(), &self.target.fields(self.headers), self.value_bytes);
        let plan = self.plan;
        let Some(workload) = &self.workload else {
            let mut bytes = Vec::new();
            renderer.plain("GET", &self.target.path, &mut bytes);
            let kind = BuiltIn::Fixed(Fixed::new(&bytes)?);
            let source = Made { address, tls: tls.cloned(), kind };
            return Ok((0..plan.threads).map(|_| Box::new(source.clone()) as Box<dyn Maker>).collect());
        };
        let maker = |thread| {
            let own = connections_of(thread, plan.threads, plan.connections);
            let kind = BuiltIn::Workload(workload.clone(), renderer.clone(), thread, own);
            Box::new(Made { address, tls: tls.cloned(), kind }) as Box<dyn Maker>
        };
        Ok((0..plan.threads).map(maker).collect())
    }
}

/// What the threads have to do for a command line.
pub(crate) fn plan(options: &Options, rate: Option<u64>) -> Plan {
    Plan {
        threads: options.threads as usize,
        connections: options.connections as usize,
        pipeline: 1,
        duration_ns: options.duration_ms * 1_000_000,
        warmup_ns: 0,
        timeout_ns: options.timeout_ms * 1_000_000,
        rate: rate.map(|rate| rate as f64),
        ending: Ending::Cut,
        is_batch_latency: options.batch_latency,
        misses_are_good: options.allow_misses,
    }
}

/// The workload that was asked for; none for one `GET` again and again.
pub(crate) fn workload(options: &Options) -> Option<Workload> {
    options.workload.map(|name| Workload::new(name, &options.knobs, options.connections))
}

/// The load of a workload. Runs of the same one go on where the one before has stopped: new keys are new.
pub(crate) fn built_in(options: &Options, workload: Option<Workload>, rate: Option<u64>) -> Load<'_> {
    let value_bytes = options.knobs.value.map(|bytes| bytes as usize);
    let headers = &options.headers;
    Load { target: &options.target, headers, workload, value_bytes, plan: plan(options, rate) }
}

/// Stations without a script.
#[derive(Clone)]
struct Made {
    address: SocketAddr,
    tls: Option<TlsClient>,
    kind: BuiltIn,
}

#[derive(Clone)]
enum BuiltIn {
    Fixed(Fixed),
    /// With the number of the thread and of its connections.
    Workload(Workload, Renderer, usize, usize),
}

impl Maker for Made {
    fn make(self: Box<Self>) -> Outcome<Station> {
        let source = match self.kind {
            BuiltIn::Fixed(fixed) => Source::fixed(fixed),
            BuiltIn::Workload(workload, renderer, thread, own) => {
                Source::made(Box::new(WorkloadRequests::new(&workload, renderer, thread, own)))
            }
        };
        Ok(Station { address: self.address, tls: self.tls, source, afterwards: Box::new(|| {}) })
    }
}

/// The first address that takes a connection, and makes a handshake if that is asked for; the last reason if none does.
pub(crate) fn reachable(
    addresses: &[SocketAddr],
    tls: Option<&TlsClient>,
) -> Result<SocketAddr, Option<io::Error>> {
    let mut reason = None;
    for address in addresses {
        match connect(address, CONNECT_TIMEOUT, tls) {
            Ok(_) => return Ok(*address),
            Err(error) => reason = Some(error),
        }
    }
    Err(reason)
}

/// A connection that is read and written by one thread, which waits for nothing longer than `timeout`.
pub(crate) fn connect(
    address: &SocketAddr,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> io::Result<(TcpStream, Box<dyn Stream>)> {
    let socket = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    let stream = open_stream(socket.try_clone()?, timeout, tls)?;
    Ok((socket, stream))
}

/// The address of a server that takes a connection.
pub(crate) fn address_of(target: &Target) -> Outcome<SocketAddr> {
    reachable(&target.resolve()?, target.tls()?.as_ref()).map_err(|source| LabError::Connect {
        place: target.place(),
        source: source.unwrap_or_else(|| io::ErrorKind::NotFound.into()),
    })
}

/// A server that cannot be reached is no reason to wait for the end of the run: every connection counts as failed.
pub(crate) fn unreachable(target: &Target, plan: &Plan, reason: Option<io::Error>) -> stats::RunOutcome {
    let reason = reason.map(|error| format!(": {error}")).unwrap_or_default();
    stderr_line(format_args!("unable to connect to {}{reason}", target.place()));
    let mut outcome = stats::RunOutcome::new(plan.rate);
    outcome.errors.connect = plan.connections as u64;
    outcome
}
