use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::clock::WallUs;
use crate::place::Place;
use crate::service::Cassandra;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::start_error::StartError;
use crate::sweep::sweep;
use crate::watch::watch;

/// How long the end waits for what is under way.
const SHUTDOWN: Duration = Duration::from_secs(2);

/// The connections to Cassandra, and the threads that serve them.
///
/// What takes many requests, as a range, runs here as a whole. An event loop has connections of its own for the others; until it has
/// them, it asks by those of these threads.
pub struct Driver {
    shared: Arc<Shared>,
    runtime: Runtime,
}

impl Driver {
    /// Connects, and makes or checks the keyspace that is used if nothing is said.
    pub fn connect(settings: &Settings, wall_us: WallUs) -> Result<Driver, StartError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(settings.threads)
            .thread_name("cassandra")
            .enable_all()
            .build()
            .map_err(|error| StartError::Threads(error.to_string()))?;
        let shared = Arc::new(runtime.block_on(Shared::connect(settings, wall_us))?);
        runtime.spawn(sweep(Arc::downgrade(&shared)));
        runtime.spawn(watch(Arc::downgrade(&shared)));
        Ok(Driver { shared, runtime })
    }

    /// What makes the service of an event loop, on its thread.
    pub fn services(&self) -> impl Fn() -> Cassandra + Clone + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || Cassandra::new(Arc::clone(&shared))
    }

    /// On how many nodes a key lives at most, and if nothing is said.
    pub fn replicas_max(&self) -> u32 {
        self.shared.place.replicas_max
    }

    /// Where the keys live, and how they are written, as a person reads it.
    pub fn describe(&self) -> String {
        let Place { keyspace, datacenter, replicas_max } = &self.shared.place;
        let state = self.shared.session.get_cluster_state();
        format!(
            "Cassandra cluster '{}', {} nodes, datacenter {datacenter}, keyspaces {keyspace}_rf…, {replicas_max} copies of a key, {} writes",
            state.cluster_name(),
            state.get_nodes_info().len(),
            self.shared.settings.writes.word()
        )
    }

    /// Ends the connections.
    pub fn close(self) {
        let Driver { shared, runtime } = self;
        drop(shared);
        runtime.shutdown_timeout(SHUTDOWN);
    }
}
