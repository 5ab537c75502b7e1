use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ladoga_cluster::{PaceRate, Pacer};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long may be saved up while nothing is repaired, in microseconds: timers are no finer.
const SAVED_US_MAX: u64 = 1_000;
/// So many records that are scanned for a list count as one cell.
const LOOKS_PER_CELL: u64 = 16;

/// The pace of repair: one account for all event loops of the node.
///
/// It is charged for cells that are pulled from peers, for hints that are delivered, for what reads repair while no client
/// waits for it, and for pages of keys that peers ask for: a node that serves the repair of another one slows down its own
/// clients too.
pub(crate) struct Pace {
    rate: Mutex<PaceRate>,
    account: Mutex<PaceAccount>,
    /// Cells that were drawn.
    drawn: AtomicU64,
    tail_us: AtomicU64,
    base_us: AtomicU64,
}

struct PaceAccount {
    began: Instant,
    /// When the charges so far are paid off.
    free_at_us: u64,
}

impl PaceAccount {
    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rate: Mutex::new(Pacer::new().rate()),
            account: Mutex::new(PaceAccount { began: Instant::now(), free_at_us: 0 }),
            drawn: AtomicU64::new(0),
            tail_us: AtomicU64::new(0),
            base_us: AtomicU64::new(0),
        }
    }
}

impl Pace {
    /// Charges a cell with a value of so many bytes, and waits until the charges before it are paid off.
    pub(crate) async fn draw_cell(&self, bytes: u64) {
        self.draw(1, bytes).await;
    }

    /// Charges a cell if that takes no waiting. Answers whether it did.
    pub(crate) fn try_draw_cell(&self, bytes: u64) -> bool {
        let cost_us = self.cost_us(1, bytes);
        let mut account = self.account.lock();
        let now_us = account.now_us();
        if account.free_at_us > now_us {
            return false;
        }
        account.free_at_us = now_us + cost_us;
        self.drawn.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Charges a page of a list, for which so many records were scanned.
    pub(crate) async fn draw_page(&self, entries: usize, looked_at: usize) {
        self.draw((entries as u64).max(looked_at as u64 / LOOKS_PER_CELL), 0).await;
    }

    /// The same for a piece of a value that does not fit into memory.
    pub(crate) async fn draw_piece(&self, bytes: u64) {
        self.draw(0, bytes).await;
    }

    async fn draw(&self, cells: u64, bytes: u64) {
        let due = self.pay(cells, bytes);
        // Short waits add up to one that a timer can do.
        if due.saturating_duration_since(Instant::now()) > Duration::from_micros(SAVED_US_MAX) {
            tokio::time::sleep_until(due).await;
        }
    }

    /// When it is this one's turn.
    fn pay(&self, cells: u64, bytes: u64) -> Instant {
        self.drawn.fetch_add(cells.max(1), Ordering::Relaxed);
        let cost_us = self.cost_us(cells, bytes);
        let mut account = self.account.lock();
        let due_us = account.free_at_us.max(account.now_us().saturating_sub(SAVED_US_MAX));
        account.free_at_us = due_us + cost_us;
        account.began + Duration::from_micros(due_us)
    }

    fn cost_us(&self, cells: u64, bytes: u64) -> u64 {
        let PaceRate { cells_per_second, bytes_per_second } = *self.rate.lock();
        (cells * 1_000_000 / cells_per_second).max(bytes * 1_000_000 / bytes_per_second)
    }

    /// How many cells were charged so far.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed)
    }

    /// Sets how much may be drawn from now on.
    pub(crate) fn set_rate(&self, rate: PaceRate) {
        *self.rate.lock() = rate;
    }

    /// Records the clients' tail latency, if there were requests, and its base line without repair.
    pub(crate) fn set_tails_us(&self, tail_us: Option<u64>, base_us: u64) {
        if let Some(tail_us) = tail_us {
            self.tail_us.store(tail_us, Ordering::Relaxed);
        }
        self.base_us.store(base_us, Ordering::Relaxed);
    }

    /// How much may be drawn now.
    pub(crate) fn rate(&self) -> PaceRate {
        *self.rate.lock()
    }

    /// The clients' tail latency at the last look, and its base line without repair, in microseconds; 0 if there was none.
    pub(crate) fn tails_us(&self) -> (u64, u64) {
        (self.tail_us.load(Ordering::Relaxed), self.base_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_by_all_is_paid_for_one_after_another() {
        let pace = Pace::default();
        let PaceRate { cells_per_second, bytes_per_second } = pace.rate();
        // So much that nothing is paid off in between.
        let first = pace.pay(cells_per_second * 1_000, 0);
        let second = pace.pay(1, bytes_per_second * 2_000);
        let third = pace.pay(1, 0);
        assert_eq!(second - first, Duration::from_secs(1_000));
        assert_eq!(third - second, Duration::from_secs(2_000), "bytes cost where they are more");
    }

    #[test]
    fn what_cannot_wait_is_drawn_once_all_before_it_is_paid_for() {
        let pace = Pace::default();
        let PaceRate { cells_per_second, .. } = pace.rate();
        assert!(pace.try_draw_cell(0));
        pace.pay(cells_per_second * 1_000, 0);
        assert!(!pace.try_draw_cell(0), "nothing is left for a thousand seconds");
        pace.account.lock().began -= Duration::from_secs(1_001);
        assert!(pace.try_draw_cell(0));
        assert_eq!(pace.drawn.load(Ordering::Relaxed), 2 + cells_per_second * 1_000);
    }

    #[test]
    fn nothing_is_saved_up_while_nothing_is_repaired() {
        let pace = Pace::default();
        pace.account.lock().began -= Duration::from_secs(100);
        let before = Instant::now();
        // (Times are cut to microseconds.)
        assert!(pace.pay(1, 0) + Duration::from_micros(SAVED_US_MAX + 1) >= before);
    }
}
