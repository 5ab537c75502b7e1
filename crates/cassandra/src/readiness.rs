//! What would keep requests from being served. Cassandra is asked about it once a second, so that a door can tell it at any time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::future::join_all;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::unprepared::Statement;
use scylla::value::CqlValue;
use tokio::time::Instant;

use crate::schema::{self, Wanted};
use crate::shared::Shared;
use crate::start_error::StartError;

/// How long a door goes by what it was told.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Nodes pass a change of the schema on to each other. In this time it should have reached all of them; it keeps no request from being
/// served until then, and all doors would leave their load balancer at once.
const AGREEMENT: Duration = Duration::from_secs(10);

/// What was found last.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Vec<String>>);

impl Readiness {
    fn set(&self, obstacles: Vec<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = obstacles;
    }

    pub(crate) fn get(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

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
        for keyspace in self.keyspaces() {
            let wanted = Wanted { from: keyspace.from, place: &self.place, writes: self.settings.writes };
            match schema::check(&self.session, wanted).await {
                Ok(()) | Err(StartError::NotNow { .. }) => {}
                Err(error) => obstacles.push(error.to_string()),
            }
        }
        obstacles
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
        let mut statement = Statement::new("SELECT schema_version FROM system.local WHERE key = 'local'");
        let target = NodeIdentifier::Node(Arc::clone(node));
        statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(target, None)));
        let rows = self.session.query_unpaged(statement, &[]).await.ok()?.into_rows_result().ok()?;
        let (version,) = rows.maybe_first_row::<(CqlValue,)>().ok()??;
        Some((node.address.to_string(), version.as_uuid()?.to_string()))
    }
}

/// By the address of a node, which version of the schema it has.
type Versions = BTreeMap<String, String>;

/// Since when nodes have had different versions of the schema, if they do.
#[derive(Default)]
struct Agreement(Option<Instant>);

impl Agreement {
    fn obstacle(&mut self, versions: &Versions, now: Instant) -> Option<String> {
        let first = versions.values().next();
        if versions.values().all(|version| Some(version) == first) {
            self.0 = None;
            return None;
        }
        let since = now - *self.0.get_or_insert(now);
        let each: Vec<String> =
            versions.iter().map(|(node, version)| format!("{node} has {version}")).collect();
        (since >= AGREEMENT).then(|| {
            format!(
                "the nodes of Cassandra have not agreed on their schema for {} s: {}",
                since.as_secs(),
                each.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(of: &[(&str, &str)]) -> Versions {
        of.iter().map(|(node, version)| ((*node).to_owned(), (*version).to_owned())).collect()
    }

    #[test]
    fn nodes_that_do_not_agree_for_long_are_an_obstacle() {
        let (one, two) = (versions(&[("a", "1"), ("b", "1")]), versions(&[("a", "1"), ("b", "2")]));
        let (mut agreement, began) = (Agreement::default(), Instant::now());
        let mut after =
            |ms: u64, versions: &Versions| agreement.obstacle(versions, began + Duration::from_millis(ms));
        assert_eq!(after(0, &one), None);
        assert_eq!(after(0, &Versions::new()), None, "nobody answered: that is another obstacle");
        assert_eq!(after(1_000, &two), None, "a change is on its way");
        assert_eq!(after(10_999, &two), None);
        assert_eq!(
            after(11_000, &two).as_deref(),
            Some("the nodes of Cassandra have not agreed on their schema for 10 s: a has 1, b has 2")
        );
        assert_eq!(after(12_000, &one), None);
        assert_eq!(after(13_000, &two), None, "it begins anew");
    }
}
