use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::{Histogram, HistogramSum, add};
use super::kinds::{COMMAND_KINDS, COMMAND_RESULTS, CommandKind, TAKEN, Taken};
use super::operation::{NO_OPERATION, OPERATIONS, Operation};
use crate::hot::HotKeys;

/// The statuses that a node answers with.
const STATUSES: [u16; 24] = [
    101, 200, 201, 202, 304, 400, 401, 403, 404, 405, 408, 409, 410, 411, 412, 413, 426, 429, 431, 500, 501,
    503, 504, 507,
];

/// Those of them that a client may have wished for.
const SUCCESSES: [u16; 6] = [200, 201, 202, 304, 404, 412];

/// What one event loop counts. Each figure is written by its thread alone, so counting takes no locked
/// instruction; the number of connections is the exception, since any loop may place one.
#[derive(Debug)]
pub struct LoopMetrics {
    /// By operation, and last those that ask for none.
    requests: [[Histogram; STATUSES.len()]; OPERATIONS.len() + 1],
    /// Commands of Redis, by kind and by how they end.
    commands: [[Histogram; COMMAND_RESULTS.len()]; COMMAND_KINDS.len()],
    /// Requests of other nodes' clients, as this one answers them as a replica.
    of_peers: Histogram,
    /// The keys that clients ask for.
    pub hot: HotKeys,
    slow_requests: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    cut_off: AtomicU64,
    displaced: [AtomicU64; TAKEN.len()],
    clock_ahead: AtomicU64,
    read_repairs: AtomicU64,
    read_repairs_left: AtomicU64,
    connections: AtomicU64,
    connections_total: AtomicU64,
    connections_ended: AtomicU64,
    connections_moved: AtomicU64,
    connections_refused: AtomicU64,
}

impl LoopMetrics {
    /// Of the event loop of this number.
    pub(super) fn new(number: usize) -> LoopMetrics {
        LoopMetrics {
            requests: Default::default(),
            commands: Default::default(),
            of_peers: Histogram::default(),
            hot: HotKeys::new(number as u32),
            slow_requests: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            cut_off: AtomicU64::new(0),
            displaced: Default::default(),
            clock_ahead: AtomicU64::new(0),
            read_repairs: AtomicU64::new(0),
            read_repairs_left: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            connections_total: AtomicU64::new(0),
            connections_ended: AtomicU64::new(0),
            connections_moved: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
        }
    }

    /// A request was answered; `operation` is what it asked for, if that is anything.
    pub fn answered(&self, operation: Option<Operation>, status: u16, duration_ns: u64) {
        if let Some(status) = STATUSES.iter().position(|&known| known == status) {
            let row = operation.map_or(OPERATIONS.len(), |operation| operation as usize);
            self.requests[row][status].record(duration_ns);
        }
    }

    /// A command of Redis was answered.
    pub fn command_served(&self, kind: CommandKind, is_error: bool, duration_ns: u64) {
        self.commands[kind as usize][usize::from(is_error)].record(duration_ns);
    }

    /// How many commands of Redis were answered.
    pub fn commands(&self) -> u64 {
        let mut sum = HistogramSum::default();
        self.commands.iter().flatten().for_each(|one| sum.add(one));
        sum.count()
    }

    /// A request of another node's client was answered to that node.
    pub fn served_a_peer(&self, duration_ns: u64) {
        self.of_peers.record(duration_ns);
    }

    /// A request was so slow that it belongs into the log.
    pub fn slow_request(&self) {
        add(&self.slow_requests, 1);
    }

    /// Something that is no request was refused.
    pub fn refused_before_routing(&self, status: u16) {
        self.answered(None, status, 0);
    }

    /// Bytes of values came in.
    pub fn received(&self, bytes: u64) {
        add(&self.received_bytes, bytes);
    }

    /// Bytes of answers went out.
    pub fn sent(&self, bytes: u64) {
        add(&self.sent_bytes, bytes);
    }

    /// An answer could not be completed.
    pub fn cut_off(&self) {
        add(&self.cut_off, 1);
    }

    /// A slow client gave way to others.
    pub fn displaced(&self, taken: Taken) {
        add(&self.displaced[taken as usize], 1);
    }

    /// A version was refused because it is too far ahead.
    pub fn clock_ahead(&self) {
        add(&self.clock_ahead, 1);
    }

    /// A replica was found stale by a read.
    pub fn read_repair(&self) {
        add(&self.read_repairs, 1);
    }

    /// Such a replica was left to hints and anti-entropy.
    pub fn read_repair_left(&self) {
        add(&self.read_repairs_left, 1);
    }

    /// Adds the requests of clients, its own and other nodes', that succeeded, and do not take as long as the client likes.
    pub(super) fn add_foreground(&self, sum: &mut HistogramSum) {
        sum.add(&self.of_peers);
        for kind in [CommandKind::Read, CommandKind::Write] {
            sum.add(&self.commands[kind as usize][0]);
        }
        for route in [Operation::Get, Operation::Head, Operation::Put, Operation::Delete] {
            let by_status = STATUSES.iter().zip(&self.requests[route as usize]);
            by_status.filter(|(status, _)| SUCCESSES.contains(status)).for_each(|(_, one)| sum.add(one));
        }
    }

    /// A connection was given to this loop.
    pub fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.connections_total.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection that another loop served before goes on at this one.
    pub fn moved_here(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.connections_moved.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection went on at another loop.
    pub fn moved_away(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection ended.
    pub fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        self.connections_ended.fetch_add(1, Ordering::Release);
    }

    /// A connection was refused.
    pub fn connection_refused(&self) {
        add(&self.connections_refused, 1);
    }

    /// How many connections there ever were.
    pub fn connections_total(&self) -> u64 {
        self.connections_total.load(Ordering::Relaxed)
    }

    /// How many connections this loop has.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

/// How many connections these event loops have altogether. Those that are on their way between two of them are counted once,
/// which the sum of what each loop has does not do.
pub fn open_connections(loops: &[Arc<LoopMetrics>]) -> u64 {
    // In this order nothing has ended that did not begin.
    let ended: u64 = loops.iter().map(|metrics| metrics.connections_ended.load(Ordering::Acquire)).sum();
    let begun: u64 = loops.iter().map(|metrics| metrics.connections_total()).sum();
    begun.saturating_sub(ended)
}

/// The figures of all event loops.
#[derive(Debug, Default)]
pub struct Sums {
    /// By operation and status; those that never were are left out.
    pub requests: Vec<(&'static str, u16, HistogramSum)>,
    /// Commands of Redis by kind and by how they ended; those that never were are left out.
    pub commands: Vec<(&'static str, &'static str, HistogramSum)>,
    /// Requests and commands that were slow.
    pub slow_requests: u64,
    /// Bytes of values received.
    pub received_bytes: u64,
    /// Bytes of answers sent.
    pub sent_bytes: u64,
    /// Answers that could not be completed.
    pub cut_off: u64,
    /// By what they had taken.
    pub displaced: [(&'static str, u64); TAKEN.len()],
    /// Versions too far ahead.
    pub clock_ahead: u64,
    /// Stale replicas that reads found.
    pub read_repairs: u64,
    /// Of these those that were left to others.
    pub read_repairs_left: u64,
    /// Connections open.
    pub connections: u64,
    /// Connections accepted.
    pub connections_total: u64,
    /// Connections that went on at another event loop.
    pub connections_moved: u64,
    /// Connections refused.
    pub connections_refused: u64,
}

impl Sums {
    /// Of these event loops.
    pub fn of(loops: &[Arc<LoopMetrics>]) -> Sums {
        let sum = |figure: fn(&LoopMetrics) -> &AtomicU64| {
            loops.iter().map(|metrics| figure(metrics).load(Ordering::Relaxed)).sum()
        };
        let mut requests = Vec::new();
        let names = OPERATIONS.map(|(_, name)| name).into_iter().chain([NO_OPERATION]);
        for (row, name) in names.enumerate() {
            for (index, status) in STATUSES.into_iter().enumerate() {
                let mut histogram = HistogramSum::default();
                for metrics in loops {
                    histogram.add(&metrics.requests[row][index]);
                }
                if histogram.count() > 0 {
                    requests.push((name, status, histogram));
                }
            }
        }
        Sums {
            requests,
            commands: commands(loops),
            slow_requests: sum(|metrics| &metrics.slow_requests),
            received_bytes: sum(|metrics| &metrics.received_bytes),
            sent_bytes: sum(|metrics| &metrics.sent_bytes),
            cut_off: sum(|metrics| &metrics.cut_off),
            displaced: TAKEN.map(|(taken, name)| {
                let of =
                    |metrics: &Arc<LoopMetrics>| metrics.displaced[taken as usize].load(Ordering::Relaxed);
                (name, loops.iter().map(of).sum())
            }),
            clock_ahead: sum(|metrics| &metrics.clock_ahead),
            read_repairs: sum(|metrics| &metrics.read_repairs),
            read_repairs_left: sum(|metrics| &metrics.read_repairs_left),
            connections: open_connections(loops),
            connections_total: sum(|metrics| &metrics.connections_total),
            connections_moved: sum(|metrics| &metrics.connections_moved),
            connections_refused: sum(|metrics| &metrics.connections_refused),
        }
    }
}

/// Commands of Redis on these event loops.
fn commands(loops: &[Arc<LoopMetrics>]) -> Vec<(&'static str, &'static str, HistogramSum)> {
    let mut commands = Vec::new();
    for (kind, name) in COMMAND_KINDS {
        for (index, result) in COMMAND_RESULTS.into_iter().enumerate() {
            let mut histogram = HistogramSum::default();
            loops.iter().for_each(|metrics| histogram.add(&metrics.commands[kind as usize][index]));
            if histogram.count() > 0 {
                commands.push((name, result, histogram));
            }
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_by_kind_and_result() {
        for (index, (kind, _)) in COMMAND_KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
        let loops = [Arc::new(LoopMetrics::new(0))];
        loops[0].command_served(CommandKind::Write, false, 2_000);
        loops[0].command_served(CommandKind::Write, true, 2_000);
        let sums = Sums::of(&loops);
        let counts = sums.commands.iter().map(|(kind, result, sum)| (*kind, *result, sum.count()));
        assert_eq!(counts.collect::<Vec<_>>(), [("write", "ok", 1), ("write", "error", 1)]);
        assert_eq!(loops[0].commands(), 2);
        let mut foreground = HistogramSum::default();
        loops[0].add_foreground(&mut foreground);
        assert_eq!(foreground.count(), 1);
    }

    #[test]
    fn every_operation_has_its_own_place() {
        for (index, (operation, _)) in OPERATIONS.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
        for (index, (taken, _)) in TAKEN.into_iter().enumerate() {
            assert_eq!(taken as usize, index);
        }
    }

    #[test]
    fn sums_are_by_operation_and_status() {
        let loops = [Arc::new(LoopMetrics::new(0)), Arc::new(LoopMetrics::new(1))];
        for metrics in &loops {
            metrics.answered(Some(Operation::Get), 200, 2_000);
            metrics.sent(7);
        }
        loops[1].answered(Some(Operation::Put), 201, 2_000);
        loops[1].connected();
        loops[1].displaced(Taken::Upload);
        let sums = Sums::of(&loops);
        let counts = sums.requests.iter().map(|(name, status, sum)| (*name, *status, sum.count()));
        assert_eq!(counts.collect::<Vec<_>>(), [("get", 200, 2), ("put", 201, 1)]);
        assert_eq!(sums.displaced, [("value", 0), ("upload", 1), ("stream", 0)]);
        assert_eq!((sums.sent_bytes, sums.connections, sums.connections_total), (14, 1, 1));
    }

    #[test]
    fn a_connection_that_moves_is_one_all_the_time() {
        let loops = [Arc::new(LoopMetrics::new(0)), Arc::new(LoopMetrics::new(1))];
        loops[0].connected();
        let count = || (open_connections(&loops), loops.each_ref().map(|metrics| metrics.connections()));
        assert_eq!(count(), (1, [1, 0]));
        loops[1].moved_here();
        assert_eq!(count(), (1, [1, 1]));
        loops[0].moved_away();
        assert_eq!(count(), (1, [0, 1]));
        loops[1].disconnected();
        assert_eq!(count(), (0, [0, 0]));
    }
}
