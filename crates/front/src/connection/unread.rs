use std::cell::{Cell, RefCell};

use ladoga_runtime::{Address, Gate, HEALTHY_BYTES_PER_SECOND, Permit};

/// What an answer may hold without being counted: the usual memory of a connection, which is, has it.
const UNCOUNTED_BYTES: u64 = 16 << 10;
/// Over so long it is measured how fast a client takes its answer.
const MEASURED_MS: u64 = 500;

/// What answers in memory hold of it while their client does not take them. It counts as values on their way do, and goes to others if they
/// need it, as long as the client is slow.
///
/// Who keeps up pays nothing, and is never refused: only the sweeper looks, at those who are waited for.
#[derive(Default)]
pub(crate) struct Unread {
    held_bytes: Cell<u64>,
    /// Of answers that are there, and wait for the one that is written.
    beside_bytes: Cell<u64>,
    written_bytes: Cell<u64>,
    measured: RefCell<Option<Box<Taking>>>,
}

/// An answer that is being written, until this is dropped.
pub(crate) struct Writing<'u>(&'u Unread);

/// How a client that was waited for has done since then.
struct Taking {
    since_ms: u64,
    moved_bytes: u64,
    /// For so many bytes, if it was too slow not to be counted.
    counted: Option<(Permit, u64)>,
}

impl Unread {
    /// An answer that holds so much is written.
    pub(crate) fn hold(&self, bytes: u64) -> Writing<'_> {
        self.held_bytes.set(bytes);
        Writing(self)
    }

    /// Answers that wait for the one that is written, if there is one, hold so much.
    pub(crate) fn hold_beside(&self, bytes: u64) {
        let before = self.beside_bytes.replace(bytes);
        if before > 0 && self.held_bytes.get() + bytes == 0 {
            self.measured.take();
        }
    }

    /// The system took so many bytes for the client.
    pub(crate) fn written(&self, bytes: u64) {
        self.written_bytes.set(self.written_bytes.get() + bytes);
    }

    /// The client is waited for; of what was written before, it took so many bytes since the last look. Answers whether it has to give way.
    pub(crate) fn look(&self, now_ms: u64, taken_bytes: u64, (gate, address): (&Gate, Address)) -> bool {
        // Both tell of the same bytes, sooner or later.
        let moved_bytes = taken_bytes.max(self.written_bytes.take());
        let held_bytes = self.held_bytes.get() + self.beside_bytes.get();
        if held_bytes <= UNCOUNTED_BYTES {
            return false;
        }
        let mut measured = self.measured.borrow_mut();
        let Some(measured) = measured.as_deref_mut() else {
            // What it took before was read by nobody, but by the system.
            *measured = Some(Box::new(Taking::since(now_ms)));
            return false;
        };
        measured.moved_bytes += moved_bytes;
        if let Some((permit, _)) = &measured.counted {
            permit.moved(moved_bytes);
            if permit.is_displaced() {
                return true;
            }
        }
        let measured_ms = now_ms.saturating_sub(measured.since_ms);
        if measured_ms < MEASURED_MS {
            return false;
        }
        let is_healthy = measured.moved_bytes * 1_000 / measured_ms >= HEALTHY_BYTES_PER_SECOND;
        let counted = measured.counted.take();
        *measured = Taking::since(now_ms);
        if is_healthy {
            return false;
        }
        measured.counted = counted.filter(|(_, counted_bytes)| *counted_bytes >= held_bytes);
        if measured.counted.is_none() {
            let Ok(permit) = gate.enter(address, held_bytes) else { return true };
            permit.waits();
            measured.counted = Some((permit, held_bytes));
        }
        false
    }
}

impl Taking {
    const fn since(now_ms: u64) -> Taking {
        Taking { since_ms: now_ms, moved_bytes: 0, counted: None }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Unread { held_bytes, beside_bytes, measured, .. } = self.0;
        held_bytes.set(0);
        beside_bytes.set(0);
        measured.take();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::*;
    use ladoga_env::Clock;
    use ladoga_env::real::RealClock;

    const ROOM: u64 = 1 << 20;

    fn room() -> Gate {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        Gate::new(ROOM, 0, "bytes", clock)
    }

    fn client(number: u8) -> Address {
        Address::of_client(Some(IpAddr::from(Ipv4Addr::new(10, 0, 0, number))))
    }

    fn has_room(gate: &Gate) -> bool {
        gate.enter_if_room(client(9), ROOM).is_ok()
    }

    #[test]
    fn who_does_not_take_an_answer_has_it_counted_until_it_is_written() {
        let (gate, unread) = (room(), Unread::default());
        let writing = unread.hold(ROOM / 2);
        let look = |now_ms, taken| unread.look(now_ms, taken, (&gate, client(1)));
        assert!(!look(0, 0) && !look(MEASURED_MS - 1, 0) && has_room(&gate), "it has not been measured yet");
        assert!(!look(MEASURED_MS, 0) && !has_room(&gate));
        // It takes something, and is fast, so it is not counted any more.
        unread.written(HEALTHY_BYTES_PER_SECOND);
        assert!(!look(2 * MEASURED_MS, 0) && has_room(&gate));
        assert!(!look(3 * MEASURED_MS, HEALTHY_BYTES_PER_SECOND / 3) && !has_room(&gate));
        drop(writing);
        assert!(has_room(&gate));
        // What is short never counts.
        let _short = unread.hold(UNCOUNTED_BYTES);
        assert!(!look(4 * MEASURED_MS, 0) && !look(9 * MEASURED_MS, 0) && has_room(&gate));
    }

    #[test]
    fn what_waits_for_the_client_counts_until_nothing_does() {
        let (gate, unread) = (room(), Unread::default());
        let look = |now_ms| unread.look(now_ms, 0, (&gate, client(1)));
        unread.hold_beside(ROOM / 2);
        assert!(!look(0) && !look(MEASURED_MS) && !has_room(&gate));
        unread.hold_beside(ROOM / 4);
        assert!(!has_room(&gate), "it is measured again before it is counted anew");
        unread.hold_beside(0);
        assert!(has_room(&gate));
    }

    #[test]
    fn who_is_slow_gives_way_and_who_keeps_up_does_not() {
        let (gate, slow, fast) = (room(), Unread::default(), Unread::default());
        let _all = (slow.hold(ROOM / 2), fast.hold(ROOM));
        slow.hold_beside(ROOM / 4);
        let look_at_slow = |now_ms| slow.look(now_ms, 0, (&gate, client(1)));
        assert!(!look_at_slow(0) && !look_at_slow(MEASURED_MS));
        let needed = gate.enter(client(2), ROOM / 2).expect("the slow one gives way");
        assert!(look_at_slow(MEASURED_MS + 1), "it has to end before the next time that it is measured");
        drop(needed);

        // Others have everything, and wait for nobody.
        let (other, gate) = (Unread::default(), room());
        let _rest = (gate.enter(client(2), ROOM).expect("room"), other.hold(ROOM / 2));
        let look = |unread: &Unread, now_ms, taken| unread.look(now_ms, taken, (&gate, client(1)));
        assert!(!look(&other, 0, 0) && !look(&fast, 0, 0));
        assert!(look(&other, MEASURED_MS, 0), "there is no room for it");
        assert!(!look(&fast, MEASURED_MS, HEALTHY_BYTES_PER_SECOND), "it needs none");
    }
}
