//! When a peer that could not give everything is asked for it again.

use std::collections::BTreeMap;

use ladoga_cluster::NodeId;

/// It is waited so many times as long as the last pull took.
const TIMES: u64 = 4;
const WAIT_MS_MIN: u64 = 500;
const WAIT_MS_MAX: u64 = 10 * 60_000;

/// Peers whose last pull ended as incomplete, and from when on they are asked again: at once the first time, since what kept a cell
/// away may be over by then. What still does may last for days, and each pull lists everything.
#[derive(Debug, Default)]
pub(super) struct Retries(BTreeMap<NodeId, u64>);

impl Retries {
    /// Whether a peer may be asked by now.
    pub(super) fn may_ask(&self, peer: NodeId, now_ms: u64) -> bool {
        self.0.get(&peer).is_none_or(|&from_ms| now_ms >= from_ms)
    }

    /// A pull that began then was incomplete, and ends now.
    pub(super) fn was_incomplete(&mut self, peer: NodeId, began_ms: u64, now_ms: u64) {
        let took_ms = now_ms.saturating_sub(began_ms);
        let wait_ms = took_ms.saturating_mul(TIMES).clamp(WAIT_MS_MIN, WAIT_MS_MAX);
        let again_ms = if self.0.contains_key(&peer) { now_ms + wait_ms } else { now_ms };
        self.0.insert(peer, again_ms);
    }

    /// A pull brought everything.
    pub(super) fn was_whole(&mut self, peer: NodeId) {
        self.0.remove(&peer);
    }

    /// All may be asked at once: somebody may have put in order what was in the way.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(1);

    #[test]
    fn a_pull_that_was_incomplete_twice_is_made_again_after_four_times_as_long() {
        for (took_ms, wait_ms) in
            [(0, WAIT_MS_MIN), (100, WAIT_MS_MIN), (60_000, 240_000), (3_600_000, WAIT_MS_MAX)]
        {
            let (mut retries, now_ms) = (Retries::default(), 7_000 + took_ms);
            assert!(retries.may_ask(PEER, 0));
            retries.was_incomplete(PEER, 0, 7_000);
            assert!(retries.may_ask(PEER, 7_000), "what was in the way may be over");
            retries.was_incomplete(PEER, 7_000, now_ms);
            assert!(!retries.may_ask(PEER, now_ms + wait_ms - 1), "{took_ms}");
            assert!(retries.may_ask(PEER, now_ms + wait_ms), "{took_ms}");
            retries.was_whole(PEER);
            retries.was_incomplete(PEER, 7_000, now_ms);
            assert!(retries.may_ask(PEER, now_ms), "it is the first time again");
        }
    }

    #[test]
    fn each_peer_waits_for_itself_and_none_after_a_repair_on_demand() {
        let mut retries = Retries::default();
        for began_ms in [0, 60_000] {
            retries.was_incomplete(PEER, began_ms, began_ms + 60_000);
        }
        assert!(retries.may_ask(NodeId(2), 120_000) && !retries.may_ask(PEER, 120_000));
        retries.clear();
        assert!(retries.may_ask(PEER, 120_000));
    }
}
