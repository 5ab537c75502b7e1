use super::*;

const SECOND: u64 = HybridClock::at_wall_ms(1000);
const HOUR: u64 = 3600 * SECOND;

/// Nodes that hear each other, and whose disks are fast.
struct Cluster {
    nodes: Vec<Settlement>,
    clock: u64,
    up: Vec<bool>,
}

impl Cluster {
    fn new(count: usize) -> Cluster {
        let nodes = (0..count).map(|n| Settlement::new(NodeId(n as u16), count, Err(n as u64 + 1))).collect();
        Cluster { nodes, clock: HOUR, up: vec![true; count] }
    }

    fn persist(&mut self) {
        for node in &mut self.nodes {
            node.persisted(node.durable().clone());
        }
    }

    fn talk(&mut self) {
        self.persist();
        for from in 0..self.nodes.len() {
            let statement = self.nodes[from].statement(self.clock);
            for to in (0..self.nodes.len()).filter(|&to| to != from && self.up[from] && self.up[to]) {
                self.nodes[to].heard(NodeId(from as u16), statement.clone());
            }
        }
        self.persist();
    }

    fn tick(&mut self, seconds: u64) {
        self.clock += seconds * SECOND;
        for (node, _) in self.nodes.iter_mut().zip(&self.up).filter(|(_, up)| **up) {
            node.tick(self.clock, HybridClock::wall_ms(self.clock), None);
        }
        self.talk();
    }

    /// Makes the pass that a node wants, from all peers that are up.
    fn pull(&mut self, node: usize) -> Option<u64> {
        let pass = self.nodes[node].pass()?.clone();
        for peer in pass.peers.iter().filter(|peer| self.up[peer.index()]) {
            self.nodes[node].pulled(pass.number, *peer);
        }
        self.persist();
        Some(pass.before)
    }
}

#[test]
fn a_new_cluster_is_whole_once_a_majority_has_met() {
    let mut cluster = Cluster::new(3);
    cluster.up[2] = false;
    assert!(!cluster.nodes[0].may_coordinate());
    cluster.talk(); // They meet,
    cluster.talk(); // and say so.
    assert!(cluster.nodes[0].is_whole() && cluster.nodes[1].is_whole());
    assert!(!cluster.nodes[2].is_whole());
    assert!(Settlement::new(NodeId(0), 1, Err(1)).durable().is_whole, "alone, there is nobody to ask");
}

#[test]
fn a_tombstone_may_go_only_when_all_have_pulled_from_all() {
    let mut cluster = Cluster::new(3);
    cluster.talk();
    cluster.tick(120);
    cluster.tick(1); // By the clocks that were heard in the tick before.
    let settled = cluster.nodes[0].durable().closed_before;
    assert!(settled > HOUR && settled <= cluster.clock - 60 * SECOND);
    assert_eq!(cluster.pull(0), Some(settled));
    assert_eq!(cluster.pull(1), Some(settled));
    cluster.talk();
    assert_eq!(cluster.nodes[0].droppable_before(), 0, "the third has not");
    cluster.pull(2);
    cluster.talk();
    assert!(cluster.nodes.iter().all(|node| node.droppable_before() == settled));
    assert_eq!(cluster.nodes[0].pass(), None, "there is nothing new");
}

#[test]
fn a_node_that_is_away_holds_the_tombstones_and_nothing_else() {
    let mut cluster = Cluster::new(3);
    cluster.talk();
    cluster.tick(120);
    for node in 0..3 {
        cluster.pull(node);
    }
    cluster.talk();
    let settled = cluster.nodes[0].droppable_before();
    cluster.up[2] = false;
    for _ in 0..100 {
        cluster.tick(30);
    }
    cluster.pull(0);
    assert_eq!(cluster.nodes[0].droppable_before(), settled);
    let now = Version { timestamp: cluster.clock, node: 1 };
    assert_eq!(cluster.nodes[0].admit(now, Origin::Client), Ok(()));
}

#[test]
fn old_writes_are_refused_where_that_was_promised() {
    let mut cluster = Cluster::new(2);
    cluster.talk();
    cluster.tick(120);
    let node = &cluster.nodes[0];
    let closed_before = node.durable().closed_before;
    let old = Version { timestamp: closed_before - 1, node: 1 };
    assert_eq!(node.admit(old, Origin::Client), Err(Refusal::TooOld { closed_before }));
    assert!(!node.may_hint(old));
    for origin in [Origin::Hint, Origin::Repair, Origin::Exchange] {
        assert_eq!(node.admit(old, origin), Ok(()), "until it has been pulled");
    }
    cluster.pull(0);
    for origin in [Origin::Client, Origin::Hint, Origin::Repair, Origin::Exchange] {
        assert_eq!(cluster.nodes[0].admit(old, origin), Err(Refusal::TooOld { closed_before }));
    }
}

#[test]
fn a_hint_that_waits_keeps_its_node_open() {
    let mut cluster = Cluster::new(2);
    cluster.talk();
    let hint = cluster.clock;
    cluster.clock += HOUR;
    cluster.talk();
    cluster.nodes[0].tick(cluster.clock, HybridClock::wall_ms(cluster.clock), Some(hint));
    assert!(cluster.nodes[0].durable().closed_before <= hint);
    cluster.nodes[0].tick(cluster.clock, HybridClock::wall_ms(cluster.clock), None);
    assert!(cluster.nodes[0].durable().closed_before > hint);
}

#[test]
fn a_lost_disk_makes_a_node_pull_everything_before_it_counts() {
    let mut cluster = Cluster::new(3);
    cluster.talk();
    cluster.talk();
    cluster.nodes[1] = Settlement::new(NodeId(1), 3, Err(77));
    assert!(!cluster.nodes[1].may_coordinate());
    cluster.talk();
    cluster.talk();
    assert!(cluster.nodes[1].may_coordinate() && !cluster.nodes[1].is_whole());
    assert_eq!(cluster.pull(1), Some(u64::MAX));
    assert!(cluster.nodes[1].is_whole());
}

/// It acknowledged a write, lost it, and acknowledged an older one, of which nobody who was asked knew that it was. (Found
/// by the simulation, seed 153.)
#[test]
fn a_lost_disk_makes_a_node_doubt_whether_a_write_is_the_newest() {
    let mut cluster = Cluster::new(3);
    cluster.talk();
    cluster.talk();
    let before = Version { timestamp: cluster.clock, node: 0 };
    let after = Version { timestamp: cluster.clock + 1, node: 0 };
    assert_eq!(cluster.nodes[1].doubt(before), Ok(None));
    cluster.nodes[1] = Settlement::new(NodeId(1), 3, Err(77));
    cluster.up[2] = false;
    cluster.talk();
    assert_eq!(cluster.nodes[1].doubt(after), Err(Refusal::Rebuilding), "one that is away may know more");
    cluster.up[2] = true;
    cluster.talk();
    let doubt =
        cluster.nodes[1].doubt(before).expect("all were heard").expect("it could have had something newer");
    assert!(doubt > before && doubt.timestamp == before.timestamp);
    assert_eq!(cluster.nodes[1].doubt(after), Ok(None));
    cluster.pull(1);
    assert_eq!(cluster.nodes[1].doubt(before), Ok(None));
}

#[test]
fn a_pass_is_void_when_a_peer_turns_out_to_have_lost_its_disk() {
    let mut cluster = Cluster::new(3);
    cluster.talk();
    cluster.tick(120);
    let pass = cluster.nodes[0].pass().expect("there is something new").clone();
    cluster.nodes[0].pulled(pass.number, NodeId(1));
    cluster.nodes[1] = Settlement::new(NodeId(1), 3, Err(77));
    cluster.talk();
    cluster.nodes[0].pulled(pass.number, NodeId(2));
    assert_eq!(cluster.nodes[0].durable().complete_before, 0);
}

#[test]
fn what_is_not_on_disk_is_not_said() {
    let mut node = Settlement::new(NodeId(0), 2, Err(9));
    assert!(node.is_dirty());
    assert_eq!(node.statement(5).incarnation, 0);
    assert!(!node.may_give(HOUR));
    node.tick(HOUR, HybridClock::wall_ms(HOUR), None);
    assert!(!node.may_give(HOUR));
    node.persisted(node.durable().clone());
    assert_eq!(node.statement(5).incarnation, 9);
    assert!(node.may_give(HOUR) && node.may_give(HOUR + 9 * SECOND) && !node.may_give(HOUR + 11 * SECOND));
    let again = Settlement::new(NodeId(0), 2, Ok(node.durable().clone()));
    assert!(!again.may_give(again.clock_floor()), "what may have been given out is not given again");
}

#[test]
fn a_clock_that_is_a_year_ahead_closes_nothing_ahead_of_the_others() {
    let mut cluster = Cluster::new(2);
    cluster.talk();
    let now = cluster.clock;
    let ahead = now + 365 * 24 * HOUR;
    cluster.nodes[0].tick(ahead, HybridClock::wall_ms(ahead), None);
    assert!(cluster.nodes[0].durable().closed_before <= now);
}

#[test]
fn restarts_in_a_row_move_the_clock_ahead_by_little() {
    let mut durable = Settlement::new(NodeId(0), 2, Err(9)).durable().clone();
    for _ in 0..20 {
        let mut node = Settlement::new(NodeId(0), 2, Ok(durable));
        let clock = node.clock_floor().max(HOUR);
        node.tick(clock, HybridClock::wall_ms(HOUR), None);
        node.persisted(node.durable().clone());
        assert!(node.may_give(clock), "it goes on at once");
        durable = node.durable().clone();
    }
    assert_eq!(durable.reserved_before, HOUR + 29 * SECOND);
}
