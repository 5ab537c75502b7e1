use ladoga_env::sim;
use ladoga_model::{HybridClock, Version};

use super::*;

/// The clock of the version is written ten times a second. A promise by the clock of a node that is ahead may be newer than what was
/// written last.
#[test]
fn a_node_that_starts_goes_on_after_all_that_it_has_promised() {
    let (env, _disk, clock) = sim::env(1);
    let dir = Path::new("/data");
    env.disk.create_dir_all(dir).expect("a directory");
    let nodes = NodeList::first(["http://a", "http://b", "http://c"]).expect("a list");
    let kept = MembershipFile::keep(&env, dir, &nodes, NodeId(0)).expect("a new directory");
    let ballot = Version { timestamp: HybridClock::at_wall_ms(clock.wall_ms() + 30_000), node: 1 };
    let supervisor = Supervisor::default();
    let fences = FenceKeeper::start(&env, dir, &supervisor).expect("a new file");
    fences.promise(7, ballot).expect("room");
    fences.close();
    let addresses = ["a", "b", "c"].map(|host| (host.to_owned(), 80)).to_vec();
    let membership = Membership { nodes, own: NodeId(0), addresses };
    let cluster =
        Cluster::new(&membership, PeerLimits::default(), Arc::clone(&env.clock), Arc::clone(&env.net));
    cluster.join(&env, dir, &kept, 0, &supervisor).expect("a directory of its own");
    assert_eq!(cluster.fences().newest(7), Some(ballot));
    assert!(!cluster.versions.is_after_all(ballot.timestamp) && cluster.versions.next() > ballot.timestamp);
    cluster.close();
}
