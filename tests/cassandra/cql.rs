use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::{Builder, Runtime};

use crate::support::wait_for;

/// Who speaks to Cassandra without a door.
pub(crate) struct Cql {
    session: Session,
    runtime: Runtime,
}

impl Cql {
    pub(crate) fn to(nodes: &str) -> Cql {
        Cql::connect(|| SessionBuilder::new().known_nodes(nodes.split(',')))
    }

    pub(crate) fn connect(builder: impl Fn() -> SessionBuilder) -> Cql {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        // The first user is made once the node serves.
        let connect = || runtime.block_on(builder().build()).ok();
        let session = wait_for("a user that Cassandra lets in", connect);
        Cql { session, runtime }
    }

    pub(crate) fn run(&self, statements: &[&str]) {
        for statement in statements {
            let done = self.runtime.block_on(self.session.query_unpaged(*statement, &[]));
            if let Err(error) = done {
                panic!("{statement}: {error}");
            }
        }
    }
}

/// A replication with this many copies.
pub(crate) fn replication(copies: u32) -> String {
    format!("WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': {copies}}}")
}
