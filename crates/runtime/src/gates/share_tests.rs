use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::address::Address;
use super::candidates::Full;
use super::share::{FairShare, HEALTHY_BYTES_PER_SECOND};

const WINDOW_MS: u64 = 2_000;
const TICK_MS: u64 = 100;

fn client(number: u8) -> Address {
    Address::of_client(Some(IpAddr::from(Ipv4Addr::new(10, 0, 0, number))))
}

/// A share, the time, and who of the holders sends how much in a tick.
struct Table {
    share: FairShare,
    clock_ms: u64,
    rates: HashMap<usize, u64>,
}

impl Table {
    fn new(max: u64) -> Table {
        let mut share = FairShare::new(max, WINDOW_MS);
        share.look(0);
        Table { share, clock_ms: 0, rates: HashMap::new() }
    }

    /// A holder that the node waits for enters, and sends so many bytes a second from then on.
    fn enter(
        &mut self,
        address: Address,
        amount: u64,
        bytes_per_second: u64,
    ) -> Result<(usize, Vec<usize>), Full> {
        let (number, displaced) = self.share.enter(address, amount)?;
        self.share.waits(number);
        self.rates.insert(number, bytes_per_second);
        Ok((number, displaced))
    }

    fn leave(&mut self, number: usize) -> Vec<usize> {
        self.rates.remove(&number);
        self.share.leave(number)
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / TICK_MS {
            self.clock_ms += TICK_MS;
            self.share.look(self.clock_ms);
            for (&number, rate) in &self.rates {
                let bytes = rate * TICK_MS / 1_000;
                if bytes > 0 && !self.share.is_displaced(number) {
                    self.share.moved(number, bytes);
                }
            }
        }
    }
}

const SLOW: u64 = 33_000;
const TRICKLE: u64 = 16_500;
const FAST: u64 = 1_000_000;

#[test]
fn the_slowest_of_those_who_were_judged_gives_way() {
    let mut table = Table::new(4);
    let numbers: Vec<_> = [SLOW, TRICKLE, FAST, SLOW + 1_000]
        .into_iter()
        .map(|rate| table.enter(client(1), 1, rate).expect("room").0)
        .collect();
    assert_eq!(table.enter(client(1), 1, FAST), Err(Full), "all of them have just come");
    table.pass(WINDOW_MS + 500);
    let (next, displaced) = table.enter(client(1), 1, FAST).expect("room");
    assert_eq!(displaced, [numbers[1]]);
    assert!(!table.share.is_granted(next), "the slowest one has not left yet");
    assert_eq!(table.leave(numbers[1]), [next]);
    assert!(table.share.is_granted(next));
    let (_, displaced) = table.enter(client(1), 1, FAST).expect("room");
    assert_eq!(displaced, [numbers[0]]);
    let (_, displaced) = table.enter(client(1), 1, FAST).expect("room");
    assert_eq!(displaced, [numbers[3]]);
    assert_eq!(table.enter(client(1), 1, FAST), Err(Full), "the others are fast, or have just come");
}

#[test]
fn who_is_stalled_from_the_beginning_gives_way_sooner() {
    let mut table = Table::new(2);
    let (silent, _) = table.enter(client(1), 1, 0).expect("room");
    let (trickle, _) = table.enter(client(1), 1, TRICKLE).expect("room");
    table.pass(600);
    assert_eq!(table.enter(client(1), 1, SLOW).expect("room").1, [silent]);
    assert_eq!(table.enter(client(1), 1, SLOW).expect("room").1, [trickle]);
    table.pass(600);
    assert_eq!(table.enter(client(1), 1, SLOW), Err(Full), "they are slow, and have just come");
}

#[test]
fn who_waits_for_us_does_not_give_way() {
    let mut table = Table::new(1);
    let (number, _) = table.enter(client(1), 1, 0).expect("room");
    table.pass(100);
    table.share.rests(number);
    table.pass(60_000);
    assert_eq!(table.enter(client(2), 1, FAST), Err(Full));
}

#[test]
fn an_address_with_more_gives_way_at_once_to_one_with_less_and_to_no_other() {
    let mut table = Table::new(16);
    for _ in 0..14 {
        table.enter(client(1), 1, SLOW).expect("room");
    }
    assert_eq!(table.enter(client(1), 1, SLOW), Err(Full), "some places are for others");
    let mut displaced = 0;
    for _ in 0..7 {
        displaced += table.enter(client(2), 1, SLOW).expect("room").1.len();
    }
    assert_eq!(displaced, 5);
    // Eight of the one and eight of the other, when both want more.
    displaced += table.enter(client(2), 1, SLOW).expect("room").1.len();
    assert_eq!(displaced, 6);
    assert_eq!(table.enter(client(2), 1, SLOW), Err(Full));
    assert_eq!(table.enter(client(1), 1, SLOW), Err(Full));
    assert_eq!(table.enter(client(3), 1, SLOW).expect("room").1.len(), 1);
}

#[test]
fn many_addresses_with_one_each_give_way_once_they_are_judged() {
    let mut table = Table::new(8);
    for number in 0..8 {
        table.enter(client(number), 1, TRICKLE).expect("room");
    }
    assert_eq!(table.enter(client(99), 1, FAST), Err(Full));
    table.pass(WINDOW_MS + 500);
    assert_eq!(table.enter(client(99), 1, FAST).expect("room").1.len(), 1);
}

#[test]
fn nodes_and_clients_give_way_to_each_other_only_when_they_are_slow() {
    let peer = client(1).as_peer();
    let mut table = Table::new(8);
    for _ in 0..8 {
        table.enter(peer, 1, TRICKLE).expect("room");
    }
    assert_eq!(table.enter(client(2), 1, FAST), Err(Full));
    table.pass(WINDOW_MS + 500);
    assert_eq!(table.enter(client(2), 1, FAST).expect("room").1.len(), 1);
    assert_eq!(table.enter(peer, 1, FAST).expect("room").1.len(), 1);
    assert!(!table.share.has_room(Address::Own, None, 1), "repair has nobody displaced");
}

/// It was only promised, and a later wish of the same holder was a second one: a panic.
#[test]
fn there_is_no_room_before_those_who_give_way_have_left() {
    let mut table = Table::new(100);
    let (slow, _) = table.enter(client(1), 60, 0).expect("room");
    table.pass(WINDOW_MS + 500);
    let (waiting, displaced) = table.enter(client(2), 50, FAST).expect("room");
    assert_eq!((displaced, table.share.is_granted(waiting)), (vec![slow], false));
    assert!(!table.share.has_room(client(3), None, 10), "the other one is first");
    table.leave(waiting);
    assert!(!table.share.has_room(client(3), None, 50), "most of it is not there yet");
    assert!(table.share.has_room(client(3), None, 40));
    let (small, _) = table.enter(client(3), 40, FAST).expect("room");
    assert!(table.share.is_granted(small));
    assert_eq!(table.leave(slow), []);
    assert!(table.share.has_room(client(4), None, 60));
}

#[test]
fn time_in_which_nobody_looked_is_held_against_nobody() {
    let mut table = Table::new(1);
    table.enter(client(1), 1, FAST).expect("room");
    table.pass(WINDOW_MS + 500);
    table.share.look(table.clock_ms + 3_600_000);
    assert_eq!(table.enter(client(2), 1, FAST), Err(Full));
}

#[test]
fn one_alone_gets_whatever_it_wants() {
    let mut table = Table::new(100);
    let (large, _) = table.enter(client(1), 60, FAST).expect("room");
    assert_eq!(table.share.grow(large, 100), Ok(Vec::new()));
    assert!(table.share.is_granted(large));
    table.pass(500);
    assert_eq!(table.enter(client(2), 1, FAST), Err(Full));
    table.leave(large);
    assert_eq!(table.enter(client(2), 1, FAST).expect("room").1, Vec::<usize>::new());
}

/// It was alone while it grew. Nobody else got anything for as long as it went on, fast enough as it was.
#[test]
fn who_alone_has_more_than_an_address_may_have_gives_way_however_fast_it_is() {
    let mut table = Table::new(100);
    let (large, _) = table.enter(client(1), 100, FAST).expect("room");
    assert_eq!(table.share.grow(large, 100), Ok(Vec::new()));
    table.pass(WINDOW_MS - 100);
    assert_eq!(table.enter(client(2), 1, FAST), Err(Full), "it may be at its end soon");
    table.pass(500);
    table.share.rests(large);
    assert_eq!(table.enter(client(2), 1, FAST), Err(Full), "it waits for us");
    table.share.waits(large);
    assert_eq!(table.enter(client(2), 1, FAST), Err(Full), "it takes its answer");
    table.share.arrives(large);
    let (other, displaced) = table.enter(client(2), 1, FAST).expect("room");
    assert_eq!(displaced, [large]);
    assert_eq!(table.leave(large), [other]);
}

#[test]
fn values_that_fill_the_room_half_way_do_not_keep_each_other_from_their_end() {
    let mut table = Table::new(100);
    let numbers: Vec<_> =
        (0..4).map(|number| table.enter(client(number), 25, FAST).expect("room").0).collect();
    let mut arrived = 0;
    for number in numbers {
        // What is refused gives its room back.
        if table.share.grow(number, 25).is_ok() {
            assert!(table.share.is_granted(number));
            arrived += 1;
        }
        table.leave(number);
    }
    assert_eq!(arrived, 3);
}

#[derive(Debug, Clone)]
enum Event {
    Comes { address: u8, amount: u64, bytes_per_second: u64 },
    Grows { which: usize, amount: u64 },
    Leaves { which: usize },
    DisplacedLeave,
    Passes { ms: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    let rate = prop_oneof![Just(0), Just(1_000), Just(TRICKLE), Just(90_000), Just(200_000), Just(5_000_000)];
    prop_oneof![
        5 => (0..6_u8, 1..40_u64, rate).prop_map(|(address, amount, bytes_per_second)| Event::Comes {
            address,
            amount,
            bytes_per_second
        }),
        4 => (any::<usize>(), 1..40_u64).prop_map(|(which, amount)| Event::Grows { which, amount }),
        2 => any::<usize>().prop_map(|which| Event::Leaves { which }),
        3 => Just(Event::DisplacedLeave),
        2 => (1..40_u64).prop_map(|ticks| Event::Passes { ms: ticks * TICK_MS }),
    ]
}

const MAX: u64 = 100;

/// Plays events, and checks after each what must hold at all times.
struct Play {
    table: Table,
    /// Those who are there and were not displaced: their address and what they have or are promised.
    holders: Vec<(usize, Address, u64)>,
    displaced: Vec<(usize, u64)>,
}

impl Play {
    fn displace(&mut self, numbers: &[usize]) {
        for number in numbers {
            let rate = self.table.rates[number];
            let at = self.holders.iter().position(|holder| holder.0 == *number).expect("it is there");
            let (number, _, has) = self.holders.swap_remove(at);
            let may_stay = rate >= HEALTHY_BYTES_PER_SECOND && has <= self.table.share.address_max();
            assert!(!may_stay, "one that has {has} and makes {rate} bytes a second gave way");
            self.displaced.push((number, has));
        }
    }

    fn play(&mut self, event: &Event) {
        match *event {
            Event::Comes { address, amount, bytes_per_second } => {
                if let Ok((number, displaced)) = self.table.enter(client(address), amount, bytes_per_second) {
                    // A fast client is fast from the first moment on.
                    if bytes_per_second > 0 {
                        self.table.share.moved(number, bytes_per_second.div_ceil(4));
                    }
                    self.displace(&displaced);
                    self.holders.push((number, client(address), amount));
                }
            }
            Event::Grows { which, amount } if !self.holders.is_empty() => {
                let at = which % self.holders.len();
                let number = self.holders[at].0;
                if self.table.share.is_granted(number) {
                    match self.table.share.grow(number, amount) {
                        Ok(displaced) => {
                            self.holders[at].2 += amount;
                            self.displace(&displaced);
                        }
                        // Refused, it gives back what it has.
                        Err(Full) => {
                            self.holders.swap_remove(at);
                            self.table.leave(number);
                        }
                    }
                }
            }
            Event::Leaves { which } if !self.holders.is_empty() => {
                let (number, ..) = self.holders.swap_remove(which % self.holders.len());
                self.table.leave(number);
            }
            Event::DisplacedLeave => {
                if let Some((number, _)) = self.displaced.pop() {
                    self.table.leave(number);
                }
            }
            Event::Passes { ms } => self.table.pass(ms),
            Event::Grows { .. } | Event::Leaves { .. } => {}
        }
    }

    fn check(&self) {
        let wanted: u64 = self.holders.iter().map(|holder| holder.2).sum();
        assert!(wanted <= MAX || self.holders.len() == 1, "{wanted} of {MAX} for {}", self.holders.len());
        // More than there is has at most one, who was alone then.
        let most =
            self.holders.iter().map(|holder| holder.2).chain(self.displaced.iter().map(|one| one.1)).max();
        assert!(self.table.share.granted() <= MAX.max(most.unwrap_or_default()));
        let is_granted = |number: &usize| self.table.share.is_granted(*number);
        // A grant waits for displaced holders only.
        if self.displaced.is_empty() {
            assert!(self.holders.iter().all(|holder| is_granted(&holder.0)), "somebody waits for nobody");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_bound_holds_and_nobody_fast_with_its_share_gives_way_and_nobody_waits_for_ever(
        events in proptest::collection::vec(event(), 1..120)
    ) {
        let mut play = Play { table: Table::new(MAX), holders: Vec::new(), displaced: Vec::new() };
        for event in &events {
            play.play(event);
            play.check();
        }
        while let Some((number, _)) = play.displaced.pop() {
            play.table.leave(number);
        }
        play.check();
        // All of them want to get to their end: at the latest when it is alone one does.
        let mut ended = 0;
        while let Some((number, _, has)) = play.holders.first().copied() {
            let grown = play.table.share.grow(number, MAX - has.min(MAX));
            play.holders.remove(0);
            if let Ok(displaced) = grown {
                play.displace(&displaced);
                for (other, _) in play.displaced.drain(..) {
                    play.table.leave(other);
                }
                prop_assert!(play.table.share.is_granted(number));
                ended += 1;
            }
            play.table.leave(number);
            if play.holders.is_empty() {
                prop_assert!(ended > 0, "none got to its end");
            }
        }
    }

    /// However much a greedy address wants, the others get their share, and it gives up no more than that.
    #[test]
    fn addresses_share_evenly(greedy in 20..60_usize, others in 1..5_u8) {
        let mut table = Table::new(32);
        let mut greedy_numbers = Vec::new();
        for _ in 0..greedy {
            greedy_numbers.extend(table.enter(client(200), 1, SLOW).map(|(number, _)| number));
        }
        let mut share = 0;
        // In turns, all of the others come as long as they are let in.
        loop {
            let mut has_got_in = false;
            for other in 0..others {
                if let Ok((_, displaced)) = table.enter(client(other), 1, SLOW) {
                    has_got_in = true;
                    share += 1;
                    for number in displaced {
                        prop_assert!(greedy_numbers.contains(&number), "one of the others gave way");
                        table.leave(number);
                    }
                }
            }
            if !has_got_in {
                break;
            }
        }
        let fair = 32 / (usize::from(others) + 1) * usize::from(others);
        prop_assert!(share >= fair.saturating_sub(usize::from(others)), "{share} of {fair}");
    }
}
