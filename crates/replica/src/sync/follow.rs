use std::sync::Arc;
use std::time::Duration;

use ladoga_cluster::{Foreground, PACE_INTERVAL_MS, Pacer};
use ladoga_runtime::{Metrics, Tail};
use tokio::time::Instant;

use crate::cluster::Cluster;

/// Of all looks in an interval, in a hundred.
const LATENESS_PERCENT: usize = 90;

/// Makes the pace follow the clients' latency, as long as the event loop runs. On one loop of a node.
pub(super) async fn follow(cluster: Arc<Cluster>, metrics: Arc<Metrics>) {
    let (pace, every_ms) = (&cluster.pace, cluster.limits.lateness_every_ms);
    let looks = (PACE_INTERVAL_MS / every_ms).max(1) as usize;
    let mut pacer = Pacer::new();
    let mut tail = Tail::default();
    let mut drawn = 0;
    let mut has_requests = false;
    let mut lateness_us = vec![0; looks];
    loop {
        // A request waits as long before it is read, which its own time does not have.
        let late_us =
            if has_requests { lateness(&mut lateness_us, every_ms).await } else { quiet_interval().await };
        let drawn_now = pace.drawn();
        let (requests, tail_us) = tail.look(&metrics);
        let tail_us = tail_us + late_us;
        let mut shown_us = None;
        if pacer.observe(drawn_now > drawn, Foreground { requests, tail_us }) {
            tail.begin_anew();
            drawn = drawn_now;
            has_requests = requests > 0;
            shown_us = has_requests.then_some(tail_us);
        }
        pace.set_tails_us(shown_us, pacer.base_us().unwrap_or(0));
        pace.set_rate(pacer.rate());
    }
}

async fn quiet_interval() -> u64 {
    tokio::time::sleep(Duration::from_millis(PACE_INTERVAL_MS)).await;
    0
}

/// How late the event loop was, most of the time in an interval, in microseconds: it was busy, or had no processor.
async fn lateness(looks: &mut [u64], every_ms: u64) -> u64 {
    for late_us in looks.iter_mut() {
        let due = Instant::now() + Duration::from_millis(every_ms);
        tokio::time::sleep_until(due).await;
        *late_us = due.elapsed().as_micros() as u64;
    }
    looks.sort_unstable();
    looks[looks.len() * LATENESS_PERCENT / 100]
}
