//! Asks Cassandra once a second what would keep requests from being served, so that a door can tell it at any time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use scylla::cluster::Node;
use scylla::value::CqlValue;
use tokio::time::Instant;

use crate::keyspace::Keyspace;
use crate::one_node::asked_of;
use crate::readiness::{Agreement, Versions};
use crate::schema;
use crate::shared::{Shared, Slot};
use crate::start_error::StartError;

/// How long a door goes by what it was told.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Asks for as long as the driver is there.
pub(crate) async fn watch(shared: Weak<Shared>) {
    let mut agreement = Agreement::default();
    loop {
        tokio::time::sleep(AGAIN_AFTER).await;
        let Some(shared) = shared.upgrade() else { return };
        let (asked, versions) = shared.schema_versions().await;
        let mut obstacles = if versions.is_empty() {
            let timeout_ms = shared.settings.timeout_ms;
            vec![format!("none of {asked} connected nodes of Cassandra answers within {timeout_ms} ms")]
        } else {
            shared.obstacles_of_keyspaces().await
        };
        obstacles.extend(agreement.obstacle(&versions, Instant::now()));
        shared.readiness.set(obstacles);
    }
}

impl Shared {
    /// What is wrong with keyspaces that were used. Each node knows all of the schema, so any of them is asked. One that does not answer
    /// is no obstacle, as others do.
    async fn obstacles_of_keyspaces(&self) -> Vec<String> {
        let mut obstacles = Vec::new();
        for (from, slot, found) in self.used() {
            let checked = match schema::check(&self.session, self.wanted(from)).await {
                Ok(table) if found.as_ref().is_ok_and(|keyspace| keyspace.meta.table == table) => Ok(()),
                Ok(_) => self.find_anew(from, slot).await,
                Err(StartError::NotNow { .. }) => Ok(()),
                Err(error) => Err(error),
            };
            obstacles.extend(checked.err().map(|error| error.to_string()));
        }
        obstacles
    }

    /// Somebody has dropped a keyspace and made it anew, maybe with other buckets or to be written in another way: it is used as it is
    /// now, or not at all. It is not made here: who makes it by hand may not have come to the row of `meta` yet.
    async fn find_anew(&self, from: u32, slot: &Slot) -> Result<(), StartError> {
        let wanted = self.wanted(from);
        let found = Keyspace::find(&self.session, wanted, &self.attempts).await;
        let found = found.and_then(|found| found.map(Arc::new).ok_or_else(|| wanted.no_meta()));
        slot.set(found.clone());
        found.map(drop)
    }

    /// How many nodes were asked for the version of their schema, and what those said that answered. The others do not count: requests
    /// that need them fail, and the others do not.
    async fn schema_versions(&self) -> (usize, Versions) {
        let state = self.session.get_cluster_state();
        let connected = state.get_nodes_info().iter().filter(|node| node.is_connected());
        let answers = join_all(connected.map(|node| self.schema_version(node))).await;
        (answers.len(), answers.into_iter().flatten().collect())
    }

    async fn schema_version(&self, node: &Arc<Node>) -> Option<(String, String)> {
        let statement = asked_of(node, "SELECT schema_version FROM system.local WHERE key = 'local'");
        let rows = self.session.query_unpaged(statement, &[]).await.ok()?.into_rows_result().ok()?;
        let (version,) = rows.maybe_first_row::<(CqlValue,)>().ok()??;
        Some((node.address.to_string(), version.as_uuid()?.to_string()))
    }
}
