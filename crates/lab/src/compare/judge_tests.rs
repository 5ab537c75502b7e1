use super::*;
use crate::compare::ROUNDS_DEFAULT;

fn rounds(before: &[f64], after: &[f64]) -> Rounds {
    Rounds { kind: Kind::Amount, better: Better::Lower, before: before.to_vec(), after: after.to_vec() }
}

/// Values around `middle` that differ by a few percent.
fn around(middle: f64, rounds: u32) -> Vec<f64> {
    (0..rounds).map(|i| middle * (1.0 + f64::from(i * 7 % 5) / 100.0)).collect()
}

fn told(before: &[f64], after: &[f64]) -> Told {
    tell(&[rounds(before, after)], Design::Apart)[0]
}

#[test]
fn a_change_is_told_and_noise_is_called_noise() {
    assert!(matches!(told(&around(100.0, 8), &around(150.0, 8)), Told::Worse(p) if p < 0.001));
    assert!(matches!(told(&around(150.0, 8), &around(100.0, 8)), Told::Better(p) if p < 0.001));
    assert!(matches!(told(&around(100.0, 8), &around(100.0, 8)), Told::Noise(p) if p > 0.9));
    let (before, after) = (around(100.0, 8), around(150.0, 8));
    let more = Rounds { better: Better::Higher, ..rounds(&before, &after) };
    assert!(matches!(tell(&[more], Design::Apart)[0], Told::Better(_)));
    let precise = |middle: f64| (0..12).map(|i| middle + f64::from(i) / 100.0).collect::<Vec<f64>>();
    assert!(matches!(told(&precise(100.0), &precise(102.0)), Told::Small(_)), "sure, and small");
}

/// A stall of a second in every other round: no test of ten rounds is sure of it among so many figures.
#[test]
fn what_is_neither_sure_nor_probable_chance_is_unclear_and_no_noise() {
    let (steady, mut stalled) = (around(1.0, 10), around(1.0, 10));
    stalled.iter_mut().step_by(2).for_each(|latency| *latency *= 1_000.0);
    let family = vec![rounds(&steady, &stalled); 3];
    for design in [Design::Alternating, Design::Apart] {
        let told = tell(&family, design)[0];
        assert!(matches!(told, Told::Unclear(p) if (LEVEL..UNCLEAR).contains(&p)), "{told:?}");
        assert!(!told.is_change());
    }
}

#[test]
fn too_few_rounds_are_no_verdict_and_no_noise() {
    let few = told(&around(100.0, 3), &around(900.0, 3));
    assert_eq!(few, Told::TooFew { before: 3, after: 3, needed: 5 });
    assert!(
        matches!(told(&around(100.0, 5), &around(900.0, 5)), Told::Worse(_)),
        "five are enough for one figure"
    );
    let family = vec![rounds(&around(100.0, 6), &around(900.0, 6)); 28];
    let told = tell(&family, Design::Apart)[0];
    assert_eq!(told, Told::TooFew { before: 6, after: 6, needed: 7 }, "and too few for twenty-eight");
    assert_eq!(tell(&[rounds(&[], &[1.0])], Design::Apart), [Told::NotMeasured]);
    let verdict = &judge(&[rounds(&[1.0], &[2.0])], Design::Apart)[0];
    assert!((verdict.change.unwrap().by - 1.0).abs() < 1e-9 && verdict.change.unwrap().interval.is_none());
}

#[test]
fn shares_are_compared_by_their_difference() {
    let share = |before: &[f64], after: &[f64]| Rounds { kind: Kind::Share, ..rounds(before, after) };
    let (none, some) = ([0.0; 10], around(0.01, 10));
    let verdicts = judge(&[share(&none, &some), share(&none, &none)], Design::Alternating);
    assert!(matches!(verdicts[0].told, Told::Worse(_)), "{verdicts:?}");
    assert!((verdicts[0].change.unwrap().by - 0.0102).abs() < 1e-3, "{verdicts:?}");
    assert_eq!((verdicts[1].told, verdicts[1].change), (Told::Never, None));
}

#[test]
fn a_side_that_drifts_as_much_is_no_change() {
    let drifting: Vec<f64> = (0..10).map(|i| 100.0 * 1.03_f64.powi(i)).collect();
    let later: Vec<f64> = drifting.iter().map(|value| value * 1.14).collect();
    let told = tell(&[rounds(&drifting, &later)], Design::Apart)[0];
    assert!(matches!(told, Told::Noise(_) | Told::Drifted(_)), "{told:?}");
    assert!(matches!(tell(&[rounds(&drifting, &later)], Design::Alternating)[0], Told::Worse(_)));
}

#[test]
fn probabilities_are_corrected_for_their_number() {
    let adjusted = holm(&[Some(0.01), None, Some(0.04), Some(0.03)]);
    let close = |index: usize, p: f64| adjusted[index].is_some_and(|found| (found - p).abs() < 1e-12);
    assert!(close(0, 0.03) && close(2, 0.06) && close(3, 0.06) && adjusted[1].is_none(), "{adjusted:?}");
}

#[test]
fn the_interval_of_a_median_is_that_of_its_order_statistics() {
    assert_eq!([1, 5, 6, 8, 9, 10, 12, 20].map(outside), [0, 0, 0, 0, 1, 1, 2, 5]);
    let side = side(&[5.0, 1.0, 2.0, 4.0, 3.0, 9.0, 8.0, 7.0, 6.0]).unwrap();
    assert_eq!((side.median, side.low, side.high), (5.0, 2.0, 8.0));
}

/// Rounds as a machine makes them that has other things to do.
struct NoisyMachine {
    state: u64,
    /// What drifts from round to round, for both sides alike.
    drift: f64,
}

/// Throughput, p50, p99, p99.9, max and CPU a request: by how much they differ between rounds of the same, as the
/// standard deviation of their logarithm.
const NOISE: [f64; 6] = [0.03, 0.04, 0.1, 0.25, 0.5, 0.025];
const STAGES: usize = 4;
const P99: usize = 2;
const P999: usize = 3;
const MAX: usize = 4;

impl NoisyMachine {
    fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), drift: 0.0 }
    }

    fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// One round of a stage: its figures, and its share of errors. One round in twenty is disturbed.
    fn round(&mut self) -> ([f64; 6], f64) {
        let disturbed = if self.unit() < 0.05 { 1.0 + 0.5 * self.unit() } else { 1.0 };
        let drift = self.drift;
        let amounts = NOISE.map(|noise| 100.0 * disturbed * (drift + noise * self.normal()).exp());
        (amounts, 0.0)
    }

    /// A comparison of two sides in alternation, of which the second is changed.
    fn comparison(&mut self, change: impl Fn(&mut Self, &mut ([f64; 6], f64))) -> Vec<Rounds> {
        let better = |index: usize| if index == 0 { Better::Higher } else { Better::Lower };
        let mut figures = Vec::new();
        for _ in 0..STAGES {
            let mut sides: [[Vec<f64>; 7]; 2] = Default::default();
            for _ in 0..ROUNDS_DEFAULT {
                self.drift += 0.005 * self.normal();
                for (side, of_side) in sides.iter_mut().enumerate() {
                    let mut round = self.round();
                    if side == 1 {
                        change(self, &mut round);
                    }
                    for (index, values) in of_side.iter_mut().enumerate() {
                        values.push(*round.0.get(index).unwrap_or(&round.1));
                    }
                }
            }
            let [before, after] = sides;
            for (index, (before, after)) in before.into_iter().zip(after).enumerate() {
                let kind = if index < NOISE.len() { Kind::Amount } else { Kind::Share };
                figures.push(Rounds { kind, better: better(index), before, after });
            }
        }
        figures
    }
}

/// The number of comparisons in which `is_found` reports the change.
fn found(
    comparisons: u64,
    change: impl Fn(&mut NoisyMachine, &mut ([f64; 6], f64)),
    is_found: impl Fn(usize, Told) -> bool,
) -> u64 {
    let one = |seed: u64| {
        let figures = NoisyMachine::new(seed + 1).comparison(&change);
        let told = tell(&figures, Design::Alternating);
        u64::from(told.into_iter().enumerate().any(|(index, told)| is_found(index % 7, told)))
    };
    (0..comparisons).map(one).sum()
}

#[test]
fn of_identical_comparisons_at_most_one_in_twenty_has_any_verdict() {
    let alarms = found(1000, |_, _| {}, |_, told| told.is_change());
    assert!(alarms <= 50, "{alarms} of 1000");
}

/// In an open loop a slower server shows in the median and in the CPU time.
#[test]
fn five_percent_are_found_nine_times_in_ten() {
    let slower = |_: &mut NoisyMachine, round: &mut ([f64; 6], f64)| {
        round.0[1] *= 1.05;
        round.0[5] *= 1.05;
    };
    let found = found(100, slower, |_, told| matches!(told, Told::Worse(_)));
    assert!(found >= 90, "{found} of 100");
}

/// Requests that fall into a second of standstill wait for evenly spread times between that second and nothing.
#[test]
fn a_second_that_stands_still_in_six_is_found_every_time() {
    let stalled = |machine: &mut NoisyMachine, round: &mut ([f64; 6], f64)| {
        let second = 1_000_000.0;
        round.0[P99] = round.0[P99].max(0.94 * second * (1.0 + 0.01 * machine.normal()));
        round.0[P999] = round.0[P999].max(0.99 * second);
        round.0[MAX] = round.0[MAX].max(second);
    };
    let is_found = |index: usize, told: Told| (P99..=MAX).contains(&index) && matches!(told, Told::Worse(_));
    assert_eq!(found(50, stalled, is_found), 50);
}

#[test]
fn one_percent_of_errors_is_found_every_time() {
    let failing = |machine: &mut NoisyMachine, round: &mut ([f64; 6], f64)| {
        round.1 = 0.01 * (1.0 + 0.1 * machine.normal());
    };
    let is_found = |index: usize, told: Told| index == 6 && matches!(told, Told::Worse(_));
    assert_eq!(found(50, failing, is_found), 50);
}

#[test]
fn a_doubled_p999_is_found_every_time() {
    let doubled = |_: &mut NoisyMachine, round: &mut ([f64; 6], f64)| round.0[P999] *= 2.0;
    let is_found = |index: usize, told: Told| index == P999 && matches!(told, Told::Worse(_));
    assert_eq!(found(50, doubled, is_found), 50);
}
