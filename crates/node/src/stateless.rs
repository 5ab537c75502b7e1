use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_cassandra::Driver;
use ladoga_env::Clock;
use ladoga_front::{Access, Entrances, Opening};
use ladoga_runtime::{Panicked, Supervisor};
use ladoga_server::{Server, ServerConfig, StartError};

use crate::config::Config;
use crate::loops::Loops;
use crate::node::StopError;

/// A door to Cassandra: the same ways in as those of a node, and nothing on its disk.
///
/// Protocol: `start stop`.
pub struct Stateless {
    server: Server,
    driver: Driver,
    supervisor: Supervisor,
    access: Arc<Access>,
}

impl Stateless {
    /// Listens, and serves from there.
    pub fn start(config: Config, clock: Arc<dyn Clock>, driver: Driver) -> Result<Stateless, StartError> {
        let Config { listen, resp, resp_settings, event_loops, placement, limits, access, traces, .. } =
            config;
        let of_loops = Arc::clone(&access);
        let supervisor = Supervisor::default();
        let loops = Arc::new(Loops::new(limits.clone(), event_loops, (resp_settings, of_loops), &clock));
        let (metrics, listen) = (Arc::clone(&loops.metrics), vec![listen, resp]);
        let config = ServerConfig {
            listen,
            event_loops,
            placement,
            limits,
            clock,
            metrics,
            supervisor: supervisor.clone(),
            traces,
        };
        let (services, nodes) = (driver.services(), driver.replicas_max());
        let server = Server::start(config, move |index, context| {
            let services = services.clone();
            let service = services();
            let opening = Rc::new(Opening::new(move || Some(service.clone())));
            loops.entrances(index, loops.door(context, opening, (nodes, false), None))
        })?;
        Ok(Stateless { server, driver, supervisor, access })
    }

    /// Where it listens for HTTP.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.server.addresses()[Entrances::<()>::HTTP]
    }

    /// Where it listens for clients of Redis.
    pub fn resp_addresses(&self) -> &[SocketAddr] {
        &self.server.addresses()[Entrances::<()>::RESP]
    }

    /// Waits until it cannot go on, because of a panic in something that it cannot do without: then it is to be stopped.
    pub fn panicked(&self) -> impl Future<Output = Panicked> + use<> {
        self.supervisor.panicked()
    }

    /// Ends the requests in flight, then the connections to Cassandra.
    pub fn stop(mut self) -> Result<(), StopError> {
        self.server.drain();
        self.server.stop();
        self.driver.close();
        self.access.close();
        self.supervisor.check().map_err(StopError::Panicked)
    }
}
