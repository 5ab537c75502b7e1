use std::sync::Arc;

use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::unprepared::Statement;

/// A statement that this node is asked, and no other one.
pub(crate) fn asked_of(node: &Arc<Node>, cql: &str) -> Statement {
    let mut statement = Statement::new(cql);
    let target = NodeIdentifier::Node(Arc::clone(node));
    statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(target, None)));
    statement
}
