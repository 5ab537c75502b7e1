//! Long profiles have more samples than there is room for: one of each group of them stays, with the weight of all.
//!
//! Which one is drawn in proportion to the weights, so the weight that is expected of each stack and of each moment stays what it
//! was. Every second one would not do: threads that are sampled in turns would lose one of them.

#[derive(Debug, Clone, Copy)]
pub(crate) struct RawSample {
    pub(crate) thread: u32,
    pub(crate) node: u32,
    pub(crate) at_ns: u64,
    pub(crate) weight: u64,
    pub(crate) count: u64,
}

/// Samples of one stack of a thread are in one group if they can be: what it waited for is not drawn against its idle time. Few
/// enough that a group is full soon, as one of them stands for the times of the others, too.
const OPEN_GROUPS: usize = 1024;

pub(crate) struct Thinning {
    /// So many samples become one.
    group: u64,
    /// Groups that are not full: the one that was drawn so far, with the weight of all, and their number.
    open: Vec<Option<(RawSample, u64)>>,
    random: u64,
}

impl Default for Thinning {
    fn default() -> Self {
        Thinning { group: 1, open: vec![None; OPEN_GROUPS], random: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl Thinning {
    /// So many samples become one.
    pub(crate) fn group(&self) -> u64 {
        self.group
    }

    /// Takes a new sample; answers what stays of its group if that is full.
    pub(crate) fn add(&mut self, sample: RawSample) -> Option<RawSample> {
        if self.group == 1 { Some(sample) } else { self.add_drawn(sample, 1) }
    }

    /// Leaves one of two samples, and of each two that are still to come.
    pub(crate) fn halve(&mut self, samples: &mut Vec<RawSample>) {
        let each = self.group;
        self.group *= 2;
        let mut kept = 0;
        for index in 0..samples.len() {
            if let Some(drawn) = self.add_drawn(samples[index], each) {
                samples[kept] = drawn;
                kept += 1;
            }
        }
        samples.truncate(kept);
    }

    /// What stays of the groups that did not fill up. No sample may come after it.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = RawSample> {
        self.open.iter_mut().filter_map(|group| group.take().map(|(drawn, _)| drawn))
    }

    /// Takes what was drawn of so many samples.
    fn add_drawn(&mut self, sample: RawSample, samples: u64) -> Option<RawSample> {
        let mixed =
            ((u64::from(sample.thread) << 32) | u64::from(sample.node)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (mixed >> 32) as usize % OPEN_GROUPS;
        let (drawn, samples) = match self.open[index].take() {
            Some((other, others)) => (one_of(other, sample, self.draw()), others + samples),
            None => (sample, samples),
        };
        if samples >= self.group {
            return Some(drawn);
        }
        self.open[index] = Some((drawn, samples));
        None
    }

    fn draw(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// The one that the random number falls on, with the weight of both, and with as many more events.
fn one_of(a: RawSample, b: RawSample, random: u64) -> RawSample {
    let weight = a.weight.saturating_add(b.weight);
    let point = random % weight.max(1);
    let (drawn, within) = if point < a.weight { (a, point) } else { (b, point - a.weight) };
    let part = u128::from(drawn.weight.max(1));
    // What is no whole event is one in so many cases that the mean is right.
    let events = (u128::from(drawn.count) * u128::from(weight) + u128::from(within)) / part;
    RawSample { weight, count: u64::try_from(events).unwrap_or(u64::MAX), ..drawn }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that stands for much stays as it is, and one that stands for little is told as often as it happened.
    #[test]
    fn what_is_expected_of_unequal_samples_is_what_they_were() {
        let sample = |node, weight, count| RawSample { thread: 1, node, at_ns: 0, weight, count };
        let (small, large) = (sample(1, 1, 4), sample(2, 3, 1));
        let (mut of_small, mut of_large) = ((0, 0), (0, 0));
        for random in 0..1200 {
            let drawn = one_of(small, large, random);
            let sums = if drawn.node == 1 { &mut of_small } else { &mut of_large };
            *sums = (sums.0 + drawn.weight, sums.1 + drawn.count);
        }
        assert_eq!((of_small, of_large), ((1200, 4800), (3600, 1200)), "1,200 of each");
        assert_eq!(one_of(sample(1, 0, 1), sample(2, 0, 1), 5).weight, 0, "waits of no time have no share");
    }
}
