use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::address::Address;
use super::rate::STALLED_BYTES_PER_SECOND;

/// There is no room, and no holder has to give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// A holder that may have to give way: not one that is healthy with its share, waits for us, or was displaced already.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) number: usize,
    pub(super) address: Address,
    pub(super) granted: u64,
    /// Whether it was not waited for long enough to be judged.
    pub(super) is_fresh: bool,
    pub(super) bytes_per_second: u64,
    pub(super) arrival: u64,
}

/// Who asks for how much, and what bounds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) address: Address,
    pub(super) amount: u64,
    /// What the asker has already.
    pub(super) own: u64,
    pub(super) max: u64,
    pub(super) address_max: u64,
}

/// What is held and promised, of all addresses and of the asker's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) of_all: u64,
    pub(super) of_address: u64,
}

impl Wish {
    /// Whether there is room without anybody giving way.
    pub(super) fn fits(&self, wanted: Wanted) -> bool {
        !self.is_short(wanted.of_all) && !self.exceeds(wanted.of_address)
    }

    const fn is_short(&self, wanted: u64) -> bool {
        wanted > self.own && wanted + self.amount > self.max
    }

    fn exceeds(&self, held: u64) -> bool {
        self.address.is_client() && held > self.own && held + self.amount > self.address_max
    }

    /// Whether one that is fresh may ever give way for it. A node stands for many clients: how much it has says nothing about any of them.
    fn is_for(&self, candidate: &Candidate) -> bool {
        !candidate.is_fresh
            || (candidate.address != self.address
                && candidate.address.is_client()
                && self.address.is_client())
    }
}

/// Which of the candidates have to give way so that there is room, in their order: those who were judged before those who were not, those
/// whose address has most, the slowest, the oldest. What an address has falls with each of them.
///
/// There can be thousands, and all others wait for this: it takes hardly more steps than there are candidates.
pub(super) fn choose(
    wish: Wish,
    mut wanted: Wanted,
    by_address: &HashMap<Address, u64>,
    mut candidates: Vec<Candidate>,
) -> Result<Vec<usize>, Full> {
    candidates.retain(|candidate| wish.is_for(candidate));
    let sum = |candidates: &[Candidate], counts: fn(&Candidate, Address) -> bool| {
        let counted = candidates.iter().filter(|candidate| counts(candidate, wish.address));
        counted.map(|candidate| candidate.granted).sum::<u64>()
    };
    let at_least = Wanted {
        of_all: wanted.of_all - sum(&candidates, |_, _| true),
        of_address: wanted.of_address - sum(&candidates, |candidate, own| candidate.address == own),
    };
    if !wish.fits(at_least) {
        return Err(Full);
    }
    let mut ranking = Ranking::new(&wish, by_address, candidates);
    let mut displaced = Vec::new();
    let mut give_way = |wanted: &mut Wanted, first: Option<Candidate>| {
        let Candidate { number, address, granted, .. } = first.ok_or(Full)?;
        wanted.of_all -= granted;
        if address == wish.address {
            wanted.of_address -= granted;
        }
        displaced.push(number);
        Ok(())
    };
    while wish.exceeds(wanted.of_address) {
        give_way(&mut wanted, ranking.take_own())?;
    }
    ranking.begin();
    while wish.is_short(wanted.of_all) {
        let would_have = wanted.of_address + wish.amount;
        give_way(&mut wanted, ranking.take(would_have))?;
    }
    Ok(displaced)
}

/// The candidates of an address.
#[derive(Default)]
struct Group {
    has: u64,
    /// Of those who were judged and of those who were not, each in the order in which they give way, the first one last.
    queues: [Vec<Candidate>; 2],
}

/// The next of a queue, by its group and its place. The greatest one gives way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    has: u64,
    bytes_per_second: Reverse<u64>,
    arrival: Reverse<u64>,
    group: usize,
}

/// When the next of a queue gives way.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// In any case: it is stalled, or of the asker's address.
    Always,
    /// If its address has at least what the asker's would.
    Judged,
    /// If its address has more than that.
    Fresh,
}

/// All candidates, those of an address together: what an address has changes the rank of its next one, and of no other.
struct Ranking {
    groups: Vec<Group>,
    own: Option<usize>,
    /// The next of each queue, by [`Way`]. What its group has may have fallen since.
    heads: [BinaryHeap<Head>; 3],
}

impl Ranking {
    fn new(wish: &Wish, by_address: &HashMap<Address, u64>, candidates: Vec<Candidate>) -> Ranking {
        let (mut numbers, mut groups) = (HashMap::new(), Vec::<Group>::new());
        for candidate in candidates {
            let number = *numbers.entry(candidate.address).or_insert_with_key(|address| {
                let has = by_address.get(address).copied().unwrap_or_default();
                groups.push(Group { has, ..Group::default() });
                groups.len() - 1
            });
            groups[number].queues[usize::from(candidate.is_fresh)].push(candidate);
        }
        for queue in groups.iter_mut().flat_map(|group| &mut group.queues) {
            queue.sort_unstable_by_key(|one| Reverse((one.bytes_per_second, one.arrival)));
        }
        Ranking { groups, own: numbers.get(&wish.address).copied(), heads: Default::default() }
    }

    /// The first of the asker's address.
    fn take_own(&mut self) -> Option<Candidate> {
        self.pop(self.own?, false)
    }

    /// From here on, anybody may have to give way.
    fn begin(&mut self) {
        for group in 0..self.groups.len() {
            self.push_head(group, false);
            self.push_head(group, true);
        }
    }

    /// The first of all, for an asker whose address would have so much.
    fn take(&mut self, would_have: u64) -> Option<Candidate> {
        let always = self.first(Way::Always);
        let judged = self.first(Way::Judged).filter(|head| head.has >= would_have);
        let (way, head) = if judged > always {
            (Way::Judged, judged)
        } else if always.is_some() {
            (Way::Always, always)
        } else {
            (Way::Fresh, self.first(Way::Fresh).filter(|head| head.has > would_have))
        };
        let (group, is_fresh) = (head?.group, matches!(way, Way::Fresh));
        self.heads[way as usize].pop();
        let taken = self.pop(group, is_fresh);
        self.push_head(group, is_fresh);
        taken
    }

    /// The first of those who give way like that.
    fn first(&mut self, way: Way) -> Option<Head> {
        loop {
            let mut first = self.heads[way as usize].peek_mut()?;
            let has = self.groups[first.group].has;
            if first.has == has {
                return Some(*first);
            }
            first.has = has;
        }
    }

    fn push_head(&mut self, number: usize, is_fresh: bool) {
        let group = &self.groups[number];
        let Some(next) = group.queues[usize::from(is_fresh)].last() else { return };
        let way = if is_fresh {
            Way::Fresh
        } else if self.own == Some(number) || next.bytes_per_second < STALLED_BYTES_PER_SECOND {
            Way::Always
        } else {
            Way::Judged
        };
        self.heads[way as usize].push(Head {
            has: group.has,
            bytes_per_second: Reverse(next.bytes_per_second),
            arrival: Reverse(next.arrival),
            group: number,
        });
    }

    fn pop(&mut self, group: usize, is_fresh: bool) -> Option<Candidate> {
        let group = &mut self.groups[group];
        let next = group.queues[usize::from(is_fresh)].pop()?;
        group.has -= next.granted;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn client(number: u64) -> Address {
        Address::of_client(Some(IpAddr::from(Ipv6Addr::from_bits(u128::from(number) << 64))))
    }

    /// The same in as many steps as it takes if all are ranked anew after each.
    fn choose_one_by_one(
        wish: Wish,
        mut wanted: Wanted,
        by_address: &HashMap<Address, u64>,
        mut candidates: Vec<Candidate>,
    ) -> Result<Vec<usize>, Full> {
        let (mut sums, mut displaced) = (by_address.clone(), Vec::new());
        while !wish.fits(wanted) {
            let would_have = wanted.of_address + wish.amount;
            let only_own = wish.exceeds(wanted.of_address);
            let rank = |one: &Candidate| {
                let (has, is_own) = (sums[&one.address], one.address == wish.address);
                let gives_way = if one.is_fresh {
                    wish.is_for(one) && has > would_have
                } else {
                    is_own || one.bytes_per_second < STALLED_BYTES_PER_SECOND || has >= would_have
                };
                let rank = (one.is_fresh, Reverse(has), one.bytes_per_second, one.arrival);
                (gives_way && (is_own || !only_own)).then_some(rank)
            };
            let ranked = candidates.iter().enumerate().filter_map(|(at, one)| Some((rank(one)?, at)));
            let first = candidates.swap_remove(ranked.min().ok_or(Full)?.1);
            *sums.get_mut(&first.address).expect("it holds something") -= first.granted;
            wanted.of_all -= first.granted;
            if first.address == wish.address {
                wanted.of_address -= first.granted;
            }
            displaced.push(first.number);
        }
        Ok(displaced)
    }

    /// Whoever may have to give way holds so much, and others of the same address as much as `beside` says.
    fn sums(candidates: &[Candidate], beside: &[(Address, u64)]) -> HashMap<Address, u64> {
        let mut sums = HashMap::new();
        let of_candidates = candidates.iter().map(|one| (one.address, one.granted));
        for (address, held) in of_candidates.chain(beside.iter().copied()) {
            *sums.entry(address).or_default() += held;
        }
        sums
    }

    fn address() -> impl Strategy<Value = Address> {
        prop_oneof![8 => (0..5_u64).prop_map(client), 1 => Just(client(1).as_peer()), 1 => Just(Address::Own)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_048))]

        #[test]
        fn they_give_way_as_if_all_were_ranked_anew_after_each(
            holders in proptest::collection::vec(
                (address(), 1..30_u64, any::<bool>(), prop_oneof![Just(0), 20_000..40_000_u64]), 0..40),
            beside in proptest::collection::vec((address(), 1..30_u64), 0..6),
            asker in (address(), 1..200_u64, prop_oneof![Just(0), 1..20_u64]),
            free in 0..20_u64,
        ) {
            let candidate = |(number, (address, granted, is_fresh, bytes_per_second))| {
                Candidate { number, address, granted, is_fresh, bytes_per_second, arrival: number as u64 * 7 % 41 }
            };
            let candidates: Vec<_> = holders.into_iter().enumerate().map(candidate).collect();
            let (address, amount, own) = asker;
            let sums = sums(&candidates, &[&beside[..], &[(address, own)]].concat());
            let wanted = Wanted { of_all: sums.values().sum(), of_address: sums[&address] };
            let max = wanted.of_all + free;
            let wish = Wish { address, amount, own, max, address_max: max - max / 8 };
            prop_assert_eq!(
                choose(wish, wanted, &sums, candidates.clone()),
                choose_one_by_one(wish, wanted, &sums, candidates)
            );
        }
    }

    /// In steps that grow with the square of their number, this would take hours.
    #[test]
    fn very_many_give_way_in_about_as_many_steps() {
        const CANDIDATES: usize = 200_000;
        let candidate = |number: usize| Candidate {
            number,
            // Half of them of one address, the others of one each.
            address: client(if number.is_multiple_of(2) { 1 } else { number as u64 }),
            granted: 1,
            is_fresh: number.is_multiple_of(3),
            bytes_per_second: number as u64 % 7,
            arrival: number as u64,
        };
        let candidates: Vec<_> = (0..CANDIDATES).map(candidate).collect();
        let sums = sums(&candidates, &[]);
        let (max, asker) = (CANDIDATES as u64, client(0));
        let wanted = Wanted { of_all: max, of_address: 0 };
        let wish = |amount| Wish { address: asker, amount, own: 0, max, address_max: max };
        let judged = candidates.iter().filter(|one| !one.is_fresh).count();
        let displaced = choose(wish(judged as u64), wanted, &sums, candidates.clone()).expect("room");
        assert_eq!(displaced.len(), judged);
        assert_eq!(
            choose(wish(max), wanted, &sums, candidates),
            Err(Full),
            "those who are fresh have no more"
        );
    }
}
