use std::sync::atomic::{AtomicU64, Ordering};

use super::Cluster;
use crate::membership::PeerView;
use ladoga_local::store::{Sample, SampleKind, SampleValue};

impl Cluster {
    /// What is counted of each peer, in the words of Prometheus.
    pub fn samples(&self) -> Vec<Sample> {
        use SampleKind::{Counter, Gauge};
        type Figure = fn(&PeerView) -> &AtomicU64;
        let figures: [(&'static str, &'static str, SampleKind, Figure); 9] = [
            ("ladoga_peer_connections", "Connections to a peer.", Gauge, |peer| &peer.connections),
            ("ladoga_peer_connects_total", "Connections made to a peer.", Counter, |peer| &peer.connects),
            (
                "ladoga_peer_connect_failures_total",
                "Connections to a peer that did not come about.",
                Counter,
                |peer| &peer.connect_failures,
            ),
            ("ladoga_peer_requests_total", "Requests to a peer.", Counter, |peer| &peer.requests),
            ("ladoga_peer_failures_total", "Requests that a peer did not answer.", Counter, |peer| {
                &peer.failures
            }),
            (
                "ladoga_peer_missed_writes_total",
                "Writes that a peer did not get from this node.",
                Counter,
                |peer| &peer.missed,
            ),
            ("ladoga_hints", "Writes that are kept for a peer.", Gauge, |peer| &peer.hints_waiting),
            ("ladoga_hints_bytes", "What they count.", Gauge, |peer| &peer.hints_bytes),
            ("ladoga_hints_dropped_total", "Writes for a peer that could not be kept.", Counter, |peer| {
                &peer.hints_dropped
            }),
        ];
        let others = || self.peers.iter().filter(|peer| peer.id != self.own);
        let labelled = |value: &dyn Fn(&PeerView) -> f64| SampleValue::Labelled {
            label: "peer",
            values: others().map(|peer| (peer.url.clone(), value(peer))).collect(),
        };
        let samples = figures.into_iter().map(|(name, help, kind, figure)| {
            let value = labelled(&|peer| figure(peer).load(Ordering::Relaxed) as f64);
            Sample { name, help, kind, value }
        });
        let clock = Sample {
            name: "ladoga_peer_clock_offset_seconds",
            help: "The clock of a peer minus that of this node.",
            kind: Gauge,
            value: labelled(&|peer| self.versions.offset_ms(peer.id).unwrap_or_default() as f64 / 1e3),
        };
        let own_clock = Sample {
            name: "ladoga_clock_ahead_of_majority_seconds",
            help: "How far the wall clock is ahead of those of a majority of the nodes, beyond a second; behind where negative.",
            kind: Gauge,
            value: SampleValue::Number(self.versions.correction_ms().unwrap_or_default() as f64 / 1e3),
        };
        let clocks = samples.chain([clock, own_clock]);
        clocks.chain(self.session_samples()).chain(self.repair_samples()).collect()
    }

    fn session_samples(&self) -> [Sample; 2] {
        let gauge = |name, help, value: usize| {
            let value = SampleValue::Number(value as f64);
            Sample { name, help, kind: SampleKind::Gauge, value }
        };
        [
            gauge(
                "ladoga_peer_sessions",
                "Connections that peers have made to this node, and greeted.",
                self.sessions.sessions(),
            ),
            gauge(
                "ladoga_peer_session_bytes",
                "Memory that these have taken beside the little that each has of its own.",
                self.sessions.taken_bytes(),
            ),
        ]
    }

    fn repair_samples(&self) -> [Sample; 8] {
        use SampleKind::{Counter, Gauge};
        let number = |name, help, kind, value| Sample { name, help, kind, value: SampleValue::Number(value) };
        let (tail_us, base_us) = self.pace.tails_us();
        let tree_bytes = self.stability.get().map_or(0, |stability| stability.tree_bytes());
        let [copies, copies_waiting, copies_refused] = self.copy_turns.figures().map(|figure| figure as f64);
        [
            number(
                "ladoga_repair_cells_total",
                "Cells taken over from peers by anti-entropy.",
                Counter,
                self.exchange.applied_total.load(Ordering::Relaxed) as f64,
            ),
            number(
                "ladoga_repair_cells_per_second_max",
                "Cells that repair may take over in a second, as the foreground is.",
                Gauge,
                self.pace.rate().cells_per_second as f64,
            ),
            number(
                "ladoga_foreground_tail_seconds",
                "How long the slowest in a hundred requests took lately.",
                Gauge,
                tail_us as f64 / 1e6,
            ),
            number(
                "ladoga_foreground_tail_base_seconds",
                "The same while hardly anything was repaired.",
                Gauge,
                base_us as f64 / 1e6,
            ),
            number("ladoga_tree_bytes", "What the hash tree takes of memory.", Gauge, tree_bytes as f64),
            number(
                "ladoga_repair_large_copies",
                "Large values that this node copies between replicas while no client waits for them.",
                Gauge,
                copies,
            ),
            number(
                "ladoga_repair_large_copies_waiting",
                "Large values that wait for that.",
                Gauge,
                copies_waiting,
            ),
            number(
                "ladoga_repair_large_copies_refused_total",
                "Large values for which there was no room among those: left to later reads and to anti-entropy.",
                Counter,
                copies_refused,
            ),
        ]
    }
}
