use std::collections::{HashMap, VecDeque};

use slab::Slab;

use super::address::Address;
use super::candidates::{Candidate, Full, Wanted, Wish, choose};
use super::rate::{Rate, Standing};

/// A holder this fast does not give way, unless it has more than an address may have and wants still more: to hold all the places at this
/// rate takes a real load.
pub const HEALTHY_BYTES_PER_SECOND: u64 = 128 << 10;
/// A client that makes nearly no progress from the beginning is judged after this time. A client that waits for `100 Continue`
/// answers after a round trip; a node may have to wait for another node, so it gets the whole window.
const STALLED_MS: u64 = 500;
/// The share of all that no client address gets as long as others want it, however fast it is.
const RESERVED_SHARE: u64 = 8;
/// Time between two looks at the clock counts at most this long: if the process was suspended, no client could make progress.
const UNSEEN_MS_MAX: u64 = 500;

/// Decides who holds how much of a scarce resource, who is admitted and who has to give way. Pure.
///
/// A request is granted at once, or when the holders that were displaced for it have left, or refused. At most `max` is granted
/// at a time, unless there is one holder only.
///
/// Protocol of a holder: `enter (grow | waits | arrives | moved | rests)* leave`.
#[derive(Debug)]
pub(super) struct FairShare {
    max: u64,
    /// For how long the node waits for a holder before it is judged by its rate.
    window_ms: u64,
    now_ms: u64,
    looked_ms: Option<u64>,
    holders: Slab<Holder>,
    /// What the holders of an address have and are promised, without those displaced.
    by_address: HashMap<Address, u64>,
    /// The sum of that.
    wanted: u64,
    /// What is held, by those displaced too until they leave.
    granted: u64,
    /// Those who are promised something, in the order in which they get it.
    promised: VecDeque<usize>,
    arrivals: u64,
}

#[derive(Debug)]
struct Holder {
    address: Address,
    granted: u64,
    promised: u64,
    is_displaced: bool,
    /// How many came before.
    arrival: u64,
    /// Whether the other side was waited for last to send more, and not to take something.
    is_arriving: bool,
    rate: Rate,
}

impl FairShare {
    pub(super) fn new(max: u64, window_ms: u64) -> FairShare {
        FairShare {
            max,
            window_ms,
            now_ms: 0,
            looked_ms: None,
            holders: Slab::new(),
            by_address: HashMap::new(),
            wanted: 0,
            granted: 0,
            promised: VecDeque::new(),
            arrivals: 0,
        }
    }

    /// Tells it the time. To be called from time to time, whether anything happens or not.
    pub(super) fn look(&mut self, clock_ms: u64) {
        let unseen_ms = clock_ms.saturating_sub(self.looked_ms.unwrap_or(clock_ms));
        self.looked_ms = Some(clock_ms);
        self.now_ms += unseen_ms.min(UNSEEN_MS_MAX);
    }

    /// A new holder asks for `amount`. Answers its number, and the holders that have to give way for it.
    pub(super) fn enter(&mut self, address: Address, amount: u64) -> Result<(usize, Vec<usize>), Full> {
        let displaced = self.in_the_way(address, None, amount)?;
        let arrival = self.arrivals;
        self.arrivals += 1;
        let holder = self.holders.insert(Holder {
            address,
            granted: 0,
            promised: 0,
            is_displaced: false,
            arrival,
            is_arriving: false,
            rate: Rate::default(),
        });
        self.promise(holder, amount, &displaced);
        Ok((holder, displaced))
    }

    /// A holder asks for `amount` more. Answers the holders that have to give way for it.
    ///
    /// # Panics
    /// If an earlier request of this holder is still to be granted.
    pub(super) fn grow(&mut self, holder: usize, amount: u64) -> Result<Vec<usize>, Full> {
        let Holder { address, promised, is_displaced, .. } = self.holders[holder];
        assert_eq!(promised, 0, "one wish at a time");
        if is_displaced {
            return Err(Full);
        }
        let displaced = self.in_the_way(address, Some(holder), amount)?;
        self.promise(holder, amount, &displaced);
        Ok(displaced)
    }

    /// Whether a new request for `amount` would be admitted now.
    pub(super) fn check(&self, address: Address, amount: u64) -> Result<(), Full> {
        self.in_the_way(address, None, amount).map(drop)
    }

    /// Whether somebody who asks for `amount` gets it at once, without anybody giving way: neither others, nor holders of its own address.
    /// Those who were displaced have theirs until they leave, and whoever was promised something is first.
    pub(super) fn has_room(&self, address: Address, asker: Option<usize>, amount: u64) -> bool {
        let is_free = self.granted == 0 || self.granted + amount <= self.max;
        let (wish, wanted) = self.wish(address, asker, amount);
        self.promised.is_empty() && is_free && wish.fits(wanted)
    }

    /// What no client address gets more of as long as others want it.
    pub(super) const fn address_max(&self) -> u64 {
        self.max - self.max / RESERVED_SHARE
    }

    /// How many came before the holder of this number; `None` if there is none.
    pub(super) fn arrival(&self, holder: usize) -> Option<u64> {
        self.holders.get(holder).map(|holder| holder.arrival)
    }

    /// Whether it has what it asked for.
    pub(super) fn is_granted(&self, holder: usize) -> bool {
        self.holders[holder].promised == 0
    }

    pub(super) fn is_displaced(&self, holder: usize) -> bool {
        self.holders[holder].is_displaced
    }

    /// The other side is waited for.
    pub(super) fn waits(&mut self, holder: usize) {
        self.waits_for(holder, false);
    }

    /// The other side is waited for to send more, for which the holder is going to grow.
    pub(super) fn arrives(&mut self, holder: usize) {
        self.waits_for(holder, true);
    }

    fn waits_for(&mut self, holder: usize, is_arriving: bool) {
        let holder = &mut self.holders[holder];
        holder.is_arriving = is_arriving;
        holder.rate.waits(self.now_ms);
    }

    /// The other side sent or took bytes.
    pub(super) fn moved(&mut self, holder: usize, bytes: u64) {
        self.holders[holder].rate.moved(bytes, self.now_ms, self.window_ms);
    }

    /// The other side waits for us.
    pub(super) fn rests(&mut self, holder: usize) {
        self.holders[holder].rate.rests(self.now_ms);
    }

    /// It gives back what it has. Answers who gets what it was promised by that.
    pub(super) fn leave(&mut self, holder: usize) -> Vec<usize> {
        let left = self.holders.remove(holder);
        self.granted -= left.granted;
        if !left.is_displaced {
            self.give_up(left.address, left.granted + left.promised);
        }
        self.promised.retain(|&other| other != holder);
        self.grant()
    }

    fn promise(&mut self, holder: usize, amount: u64, displaced: &[usize]) {
        for &other in displaced {
            let Holder { address, granted, .. } = self.holders[other];
            self.holders[other].is_displaced = true;
            self.give_up(address, granted);
        }
        let Holder { address, promised, .. } = &mut self.holders[holder];
        *promised = amount;
        *self.by_address.entry(*address).or_default() += amount;
        self.wanted += amount;
        self.promised.push_back(holder);
        self.grant();
    }

    fn give_up(&mut self, address: Address, amount: u64) {
        self.wanted -= amount;
        let of_address = self.by_address.get_mut(&address).expect("it holds something");
        *of_address -= amount;
        if *of_address == 0 {
            self.by_address.remove(&address);
        }
    }

    /// Grants what was promised, in order, as far as there is room.
    fn grant(&mut self) -> Vec<usize> {
        let mut granted = Vec::new();
        while let Some(&first) = self.promised.front() {
            let holder = &mut self.holders[first];
            let is_alone = self.granted == holder.granted;
            if !is_alone && self.granted + holder.promised > self.max {
                break;
            }
            self.granted += holder.promised;
            holder.granted += std::mem::take(&mut holder.promised);
            self.promised.pop_front();
            granted.push(first);
        }
        granted
    }

    /// The holders that have to give way so that there is room for `amount` more.
    fn in_the_way(&self, address: Address, asker: Option<usize>, amount: u64) -> Result<Vec<usize>, Full> {
        let (wish, wanted) = self.wish(address, asker, amount);
        if wish.fits(wanted) {
            return Ok(Vec::new());
        }
        let others = self.holders.iter().filter(|(number, _)| Some(*number) != asker);
        let candidates = others.filter_map(|(number, holder)| self.candidate(number, holder));
        choose(wish, wanted, &self.by_address, candidates.collect())
    }

    /// A wish for `amount` more, and what is held and promised already.
    fn wish(&self, address: Address, asker: Option<usize>, amount: u64) -> (Wish, Wanted) {
        let own = asker.map_or(0, |asker| self.holders[asker].granted);
        let of_address = self.by_address.get(&address).copied().unwrap_or_default();
        let wish = Wish { address, amount, own, max: self.max, address_max: self.address_max() };
        (wish, Wanted { of_all: self.wanted, of_address })
    }

    /// A holder as one that may have to give way; `None` if it does not, whoever asks.
    fn candidate(&self, number: usize, holder: &Holder) -> Option<Candidate> {
        if holder.is_displaced || holder.promised > 0 {
            return None;
        }
        let stalled_ms = if holder.address.is_client() { STALLED_MS } else { self.window_ms };
        let (is_fresh, bytes_per_second) = match holder.rate.standing(self.now_ms, self.window_ms, stalled_ms)
        {
            Standing::Served => return None,
            Standing::Fresh { bytes_per_second } => (true, bytes_per_second),
            Standing::Judged { bytes_per_second } => (false, bytes_per_second),
        };
        let Holder { address, granted, arrival, .. } = *holder;
        // It got that while it was alone, and none of the others gets anything. In its time of grace it may come to its end. Who takes an
        // answer was served already.
        let has_too_much = holder.is_arriving && !is_fresh && granted > self.address_max();
        let gives_way = bytes_per_second < HEALTHY_BYTES_PER_SECOND || has_too_much;
        gives_way.then_some(Candidate { number, address, granted, is_fresh, bytes_per_second, arrival })
    }

    /// How much is held, by those displaced too.
    #[cfg(test)]
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }
}
