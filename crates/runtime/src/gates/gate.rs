use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ladoga_env::Clock;
use parking_lot::{Mutex, MutexGuard};

use super::address::Address;
use super::candidates::Full;
use super::share::FairShare;

/// A bound that is shared fairly between addresses: holders that are too slow give way, and requests beyond that are refused.
#[derive(Clone)]
pub struct Gate {
    inside: Arc<Mutex<Inside>>,
    clock: Arc<dyn Clock>,
    /// What to say to those who are refused.
    bound: &'static str,
    /// Never another, so it is asked without the lock.
    address_max: u64,
}

struct Inside {
    share: FairShare,
    /// Whom to wake when something is decided about a holder, by its number.
    wakers: Vec<Option<Waker>>,
}

/// There is no room, and no holder has to give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("over capacity: {bound}")]
pub struct OverCapacity {
    /// Which bound is reached.
    pub bound: &'static str,
}

/// The holder has to give way to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it made little progress, or had more than one client may have, while other requests waited")]
pub struct Displaced;

/// The right to be inside, given back when dropped.
pub struct Permit {
    gate: Gate,
    address: Address,
    number: usize,
}

impl Gate {
    /// A gate for `max` in all. A holder is judged by its rate after `window_ms`.
    pub fn new(max: u64, window_ms: u64, bound: &'static str, clock: Arc<dyn Clock>) -> Gate {
        let share = FairShare::new(max, window_ms);
        let address_max = share.address_max();
        let inside = Inside { share, wakers: Vec::new() };
        Gate { inside: Arc::new(Mutex::new(inside)), clock, bound, address_max }
    }

    /// Asks for `amount`, which is held once [`Permit::granted`] returns.
    pub fn enter(&self, address: Address, amount: u64) -> Result<Permit, OverCapacity> {
        self.enter_inside(self.look(), address, amount)
    }

    fn enter_inside(
        &self,
        mut inside: MutexGuard<'_, Inside>,
        address: Address,
        amount: u64,
    ) -> Result<Permit, OverCapacity> {
        let (number, displaced) =
            inside.share.enter(address, amount).map_err(|full| self.refused(address, full))?;
        if inside.wakers.len() <= number {
            inside.wakers.resize(number + 1, None);
        }
        inside.wake(&displaced);
        Ok(Permit { gate: self.clone(), address, number })
    }

    /// As [`Gate::enter`], but granted at once, and no holder gives way for it.
    pub fn enter_if_room(&self, address: Address, amount: u64) -> Result<Permit, OverCapacity> {
        let inside = self.look();
        if !inside.share.has_room(address, None, amount) {
            return Err(self.refused(address, Full));
        }
        self.enter_inside(inside, address, amount)
    }

    /// What one client may have of it while others want it, too.
    pub const fn address_max(&self) -> u64 {
        self.address_max
    }

    /// Whether a request for `amount` would be admitted now.
    pub fn check(&self, address: Address, amount: u64) -> Result<(), OverCapacity> {
        self.look().share.check(address, amount).map_err(|full| self.refused(address, full))
    }

    /// Looks at the clock, which is to be done from time to time.
    pub fn look_at_the_clock(&self) {
        drop(self.look());
    }

    fn look(&self) -> MutexGuard<'_, Inside> {
        let clock_ms = self.clock.monotonic_ns() / 1_000_000;
        let mut inside = self.inside.lock();
        inside.share.look(clock_ms);
        inside
    }

    fn refused(&self, address: Address, Full: Full) -> OverCapacity {
        tracing::debug!(%address, bound = self.bound, "refused: no client has to give way");
        OverCapacity { bound: self.bound }
    }
}

impl Inside {
    fn wake(&mut self, numbers: &[usize]) {
        for &number in numbers {
            if let Some(waker) = self.wakers[number].take() {
                waker.wake();
            }
        }
    }

    fn when_decided(&mut self, number: usize, context: &Context<'_>) {
        let waker = &mut self.wakers[number];
        if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }
}

impl Permit {
    /// Asks for `amount` more, which is held once [`Permit::granted`] returns.
    pub fn grow(&self, amount: u64) -> Result<(), OverCapacity> {
        let mut inside = self.gate.look();
        let displaced =
            inside.share.grow(self.number, amount).map_err(|full| self.gate.refused(self.address, full))?;
        inside.wake(&displaced);
        Ok(())
    }

    /// As [`Permit::grow`], but granted at once, and no holder gives way for it.
    pub fn grow_if_room(&self, amount: u64) -> Result<(), OverCapacity> {
        let mut inside = self.gate.look();
        let has_room = inside.share.has_room(self.address, Some(self.number), amount);
        let grown = if has_room { inside.share.grow(self.number, amount) } else { Err(Full) };
        inside.wake(&grown.map_err(|full| self.gate.refused(self.address, full))?);
        Ok(())
    }

    /// Waits until the holders that give way for it have left.
    pub async fn granted(&self) {
        poll_fn(|context| {
            let mut inside = self.gate.inside.lock();
            if inside.share.is_granted(self.number) {
                return Poll::Ready(());
            }
            inside.when_decided(self.number, context);
            Poll::Pending
        })
        .await;
    }

    /// The other side is waited for.
    pub fn waits(&self) {
        self.gate.look().share.waits(self.number);
    }

    /// The same, for more of what this is for: it may have to give way at any rate if it has more than a client may have.
    pub fn arrives(&self) {
        self.gate.look().share.arrives(self.number);
    }

    /// The other side sent or took bytes.
    pub fn moved(&self, bytes: u64) {
        self.gate.look().share.moved(self.number, bytes);
    }

    /// The other side waits for us.
    pub fn rests(&self) {
        self.gate.look().share.rests(self.number);
    }

    /// Whether this holder has to give way.
    pub fn is_displaced(&self) -> bool {
        self.gate.inside.lock().share.is_displaced(self.number)
    }

    /// Ready once this holder has to give way.
    pub fn poll_displaced(&self, context: &Context<'_>) -> Poll<Displaced> {
        let mut inside = self.gate.inside.lock();
        if inside.share.is_displaced(self.number) {
            tracing::debug!(address = %self.address, "a client gives way to others");
            return Poll::Ready(Displaced);
        }
        inside.when_decided(self.number, context);
        Poll::Pending
    }
}

impl Permit {
    /// Resolves once this holder has to give way, or has left. It borrows nothing, for callers that cannot hold on to the
    /// permit while they wait.
    pub fn watch(&self) -> impl Future<Output = Result<(), Displaced>> + use<> {
        let (gate, number) = (self.gate.clone(), self.number);
        let arrival = gate.inside.lock().share.arrival(number);
        poll_fn(move |context| {
            let mut inside = gate.inside.lock();
            if inside.share.arrival(number) != arrival {
                return Poll::Ready(Ok(()));
            }
            if inside.share.is_displaced(number) {
                return Poll::Ready(Err(Displaced));
            }
            inside.when_decided(number, context);
            Poll::Pending
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inside = self.gate.inside.lock();
        let granted = inside.share.leave(self.number);
        inside.wake(&[self.number]);
        inside.wake(&granted);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("address", &self.address)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
