//! What a connection holds of what all clients share.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use ladoga_runtime::{Address, Gate, OverCapacity, Permit, Taken};

use super::expected::Expected;

/// The permits of a connection, whoever has them: the request that arrives, one that is served, a reply, a transaction. While the client
/// is waited for, each of them may have to be given back. Then the connection ends: what it does needs them.
pub(super) struct HeldPermits {
    /// The memory for values.
    pub(super) bodies: Gate,
    /// Whom it is counted for.
    pub(super) address: Address,
    permits: RefCell<Vec<(Weak<Permit>, Taken)>>,
    /// What its values are expected to take. They are sent without asking for room.
    pub(super) expected: Expected,
}

impl HeldPermits {
    pub(super) const fn new(bodies: Gate, address: Address) -> HeldPermits {
        HeldPermits { bodies, address, permits: RefCell::new(Vec::new()), expected: Expected::new() }
    }

    fn add(&self, permit: Permit, taken: Taken) -> Rc<Permit> {
        let permit = Rc::new(permit);
        let mut permits = self.permits.borrow_mut();
        permits.retain(|(permit, _)| permit.strong_count() > 0);
        permits.push((Rc::downgrade(&permit), taken));
        permit
    }

    fn for_each(&self, act: impl Fn(&Permit)) {
        self.permits
            .borrow()
            .iter()
            .filter_map(|(permit, _)| permit.upgrade())
            .for_each(|permit| act(&permit));
    }

    /// The client is waited for, and has moved so many bytes since this was said last.
    pub(super) fn wait_for_client(&self, moved_bytes: u64) {
        self.for_each(|permit| {
            permit.waits();
            if moved_bytes > 0 {
                permit.moved(moved_bytes);
            }
        });
    }

    /// The client is waited for to send more of a request.
    pub(super) fn wait_for_request(&self) {
        self.for_each(Permit::arrives);
    }

    /// The client sent or took so many bytes, and is not waited for any more.
    pub(super) fn rest(&self, moved_bytes: u64) {
        self.for_each(|permit| {
            if moved_bytes > 0 {
                permit.moved(moved_bytes);
            }
            permit.rests();
        });
    }

    /// Ready once one of them has to be given back, with what that is.
    pub(super) fn poll_displaced(&self, context: &Context<'_>) -> Poll<Taken> {
        let permits = self.permits.borrow();
        let displaced = permits.iter().find_map(|(permit, taken)| {
            let permit = permit.upgrade()?;
            permit.poll_displaced(context).is_ready().then_some(*taken)
        });
        displaced.map_or(Poll::Pending, Poll::Ready)
    }

    /// Asks for so much of something that clients share, which is held once [`Permit::granted`] returns.
    pub(super) fn enter(&self, gate: &Gate, amount: u64, taken: Taken) -> Result<Rc<Permit>, OverCapacity> {
        Ok(self.add(gate.enter(self.address, amount)?, taken))
    }

    /// The same of the memory for values. It is granted at once, and nobody gives way for it.
    pub(super) fn enter_if_room(&self, bytes: u64) -> Result<Rc<Permit>, OverCapacity> {
        Ok(self.add(self.bodies.enter_if_room(self.address, bytes)?, Taken::Value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use super::*;
    use ladoga_env::Clock;
    use ladoga_env::real::RealClock;

    #[test]
    fn whoever_has_a_permit_gives_it_back_while_the_client_is_waited_for() {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let (gate, context) = (Gate::new(80, 0, "bytes", clock), Context::from_waker(Waker::noop()));
        let (address, held) =
            (Address::of_client(None), HeldPermits::new(gate.clone(), Address::of_client(None)));
        let ended = held.add(gate.enter(address, 10).expect("room"), Taken::Upload);
        drop(ended);
        let permits = [Taken::Value, Taken::Stream]
            .map(|taken| held.add(gate.enter(address, 30).expect("room"), taken));
        assert_eq!(held.permits.borrow().len(), 2, "what has ended is forgotten");
        // It waits for us: nobody takes anything away from it.
        assert!(gate.enter(address, 30).is_err());
        assert!(held.poll_displaced(&context).is_pending());
        held.wait_for_client(0);
        held.rest(0);
        assert!(gate.enter(address, 30).is_err());
        held.wait_for_client(0);
        let other = gate.enter(address, 30).expect("one of them gives way");
        assert_eq!(held.poll_displaced(&context), Poll::Ready(Taken::Value));
        drop((permits, other));
        assert!(held.poll_displaced(&context).is_pending());
    }

    #[test]
    fn no_connection_of_the_same_client_gives_way_for_what_needs_room_at_once() {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let (gate, context) = (Gate::new(80, 0, "bytes", clock), Context::from_waker(Waker::noop()));
        let [idle, other] = [(); 2].map(|()| HeldPermits::new(gate.clone(), Address::of_client(None)));
        let _held = idle.enter_if_room(40).expect("room");
        idle.wait_for_client(0);
        // There is room for all, but not for one client.
        assert!(other.enter_if_room(40).is_err());
        let permit = other.enter_if_room(20).expect("room");
        assert!(permit.grow_if_room(20).is_err());
        assert!(idle.poll_displaced(&context).is_pending());
        permit.grow_if_room(10).expect("so much one client may have");
    }
}
