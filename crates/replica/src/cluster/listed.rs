use ladoga_cluster::{Acquaintance, Durable, KeptState};

use super::Cluster;
use crate::planted::{Bug, has};

/// The state of a node in this list of nodes, which may be another one than before; with the names of the nodes.
pub(super) fn of_this_list(cluster: &Cluster, state: KeptState, names: &[u64]) -> Durable {
    let before = state.durable.relisting;
    let durable = if has(Bug::KnowByPlace) { by_place(state, names) } else { state.in_list(names) };
    if has(Bug::CountNewNodes) {
        // Whoever joins is a node of which nobody knows anything.
        let known = durable.met.iter().zip(&durable.joining);
        let met = known.map(|(met, is_new)| if *is_new { Acquaintance::default() } else { *met }).collect();
        return Durable { met, joining: vec![false; names.len()], relisting: before, ..durable };
    }
    if durable.relisting != before {
        let joining = cluster.nodes.iter().zip(&durable.joining).filter(|(_, joining)| **joining);
        let urls: Vec<String> = joining.map(|((id, _), _)| cluster.node_url(id)).collect();
        tracing::warn!(
            "new in the list of nodes: {}. The answers of a new node do not count until it has copied the data of the other nodes",
            urls.join(", ")
        );
    }
    durable
}

/// The same if what is known of a node goes to whoever has its place now. A place that there is no more is that of a node that left.
fn by_place(state: KeptState, names: &[u64]) -> Durable {
    let name_at = |place: usize| names.get(place).copied().unwrap_or(place as u64);
    let before = state.names.map(|before| (0..before.len()).map(name_at).collect());
    KeptState { names: before, ..state }.in_list(names)
}
