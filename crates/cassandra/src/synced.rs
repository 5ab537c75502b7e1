//! Whether the nodes of Cassandra have a write on disk when they acknowledge it.

use std::sync::Arc;

use futures::future::join_all;
use ladoga_model::Durability;
use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::errors::{ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;

use crate::one_node::asked_of;
use crate::start_error::StartError;

/// Where the settings of a node are: Cassandra has them in a table, `ScyllaDB` in another one.
const TABLES: [&str; 2] = ["system_views.settings", "system.config"];

/// The word of a node's setting `commitlog_sync`, or why it does not say.
type Told = Result<String, String>;

/// Asks each node of the datacenter that is connected; nothing is known if one of them does not say. An error if it has to be so, and is
/// not, or is not known to be.
pub(crate) async fn is_synced(
    session: &Session,
    datacenter: &str,
    durability: Durability,
) -> Result<Option<bool>, StartError> {
    let state = session.get_cluster_state();
    let is_here = |node: &&Arc<Node>| {
        node.is_connected() && node.datacenter.as_deref().unwrap_or_default() == datacenter
    };
    let nodes = state.get_nodes_info().iter().filter(is_here);
    let told = join_all(nodes.map(|node| commitlog_sync(session, node))).await;
    judge(told.into_iter().flatten().collect(), durability)
}

/// None if the node does not answer. It keeps no door from starting, as it would not if it were dead.
async fn commitlog_sync(session: &Session, node: &Arc<Node>) -> Option<Told> {
    let mut reasons = Vec::new();
    for table in TABLES {
        let select = format!("SELECT value FROM {table} WHERE name = 'commitlog_sync'");
        match session.query_unpaged(asked_of(node, &select), &[]).await.map(word) {
            Ok(Some(word)) => return Some(Ok(word)),
            Ok(None) => reasons.push(format!("{table} does not have it")),
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(_, words))) => {
                reasons.push(words);
            }
            Err(_) => return None,
        }
    }
    Some(Err(reasons.join("; ")))
}

fn word(found: QueryResult) -> Option<String> {
    let rows = found.into_rows_result().ok()?;
    let (value,) = rows.maybe_first_row::<(String,)>().ok()??;
    Some(value.trim_matches('"').to_owned())
}

fn judge(told: Vec<Told>, durability: Durability) -> Result<Option<bool>, StartError> {
    let nobody = told.is_empty().then(|| "none of its nodes answers".to_owned());
    let (mut found, mut unknown) = (None, nobody);
    for told in told {
        match told {
            Ok(word) if word == "batch" || word == "group" => {}
            Ok(word) => found = Some(word),
            Err(reason) => unknown = Some(reason),
        }
    }
    match (found, unknown, durability) {
        (Some(found), _, Durability::Always) => Err(StartError::NotSynced { found }),
        (Some(_), ..) => Ok(Some(false)),
        (None, Some(reason), Durability::Always) => Err(StartError::SyncUnknown { reason }),
        (None, Some(reason), _) => {
            tracing::warn!(
                reason,
                "Cassandra does not say what its commitlog_sync is: it is not known when writes are on disk, and requests with \
                 fsync=always are refused"
            );
            Ok(None)
        }
        (None, None, _) => Ok(Some(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(told: &[Result<&str, &str>], durability: Durability) -> Result<Option<bool>, String> {
        let told = told.iter().map(|told| told.map(str::to_owned).map_err(str::to_owned)).collect();
        judge(told, durability).map_err(|error| error.to_string())
    }

    /// A node that did not say was taken for one that syncs, and one node for all of them.
    #[test]
    fn all_nodes_have_to_say_that_they_sync_if_writes_are_to_be_on_disk() {
        let (always, everysec) = (Durability::Always, Durability::EverySecond);
        let both = [Ok("batch"), Ok("group")];
        assert_eq!(judged(&both, always), Ok(Some(true)));
        assert_eq!(judged(&both, everysec), Ok(Some(true)));
        let untold: [&[Result<&str, &str>]; 2] = [&[], &[Ok("batch"), Err("no right to it")]];
        for told in untold {
            let error = judged(told, always).expect_err("it may be periodic");
            assert!(error.contains("GRANT SELECT ON system_views.settings"), "{error}");
            assert!(error.contains("--fsync everysec"), "{error}");
            assert_eq!(judged(told, everysec), Ok(None));
        }
        for told in [&[Ok("batch"), Ok("periodic")][..], &[Ok("periodic"), Err("no right to it")]] {
            let error = judged(told, always).expect_err("one is periodic");
            assert!(error.contains("commitlog_sync periodic"), "{error}");
            assert_eq!(judged(told, everysec), Ok(Some(false)));
        }
    }
}
