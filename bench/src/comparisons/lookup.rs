//! A part of P9: the cost of finding out which block of which table has to be read for a key, for the engine alone. The
//! reference is one unpredictable access to main memory: the ratio tells how many of those a look-up waits for.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use ladoga_storage::{Cached, Durability, Engine, Options, ReadTier};

use crate::context::Context;
use crate::process::wait_until_quiet;
use crate::random::Random;
use crate::report::{Contest, Figure};
use crate::stop::{OrFail, Outcome, failed};
use crate::storage::measure::fill;
use crate::storage::{Sync, VALUE_BYTES, key, ladoga};

const RECORDS: u64 = 10_000_000;
const MEMORY_BYTES: u64 = 128 << 20;
const ROUNDS: usize = 5;
const LOOKUPS: u64 = 300_000;
/// In the smoke.
const FEW_LOOKUPS: u64 = 1600;
/// Look-ups between two moments at which everything else has the processor: about a turn of an event loop.
const TURN: u64 = 16;
/// What else a turn touches: as much as the caches of one core hold.
const OTHERS_BYTES: usize = 2 << 20;
/// Accesses of the reference in a turn.
const ACCESSES: u32 = 64;
/// More than any cache of the processor holds.
const MEMORY_LINES: usize = (256 << 20) / 64;
const LINE_WORDS: usize = 64 / size_of::<u64>();

const FIGURES: [Figure; 3] = [
    Figure::compared("ns, median turn", 0),
    Figure::shown("of them answered by memory, %", 1),
    Figure::shown("tables asked in vain", 2),
];

pub(crate) fn lookup(context: &Context) -> Outcome {
    let records = context.scale.records(RECORDS);
    let title =
        format!("storage alone: finding the block of a key, {records} records, {} MiB", MEMORY_BYTES >> 20);
    let mut contest = Contest::new("lookup", title, &FIGURES);
    let folder = match context.kept_store() {
        Some(folder) => folder.to_path_buf(),
        None => context.scratch.fresh("store")?,
    };
    if !folder.join("CURRENT").exists() {
        let store = ladoga::open(&folder, Sync::Never, MEMORY_BYTES)?;
        fill(&*store, records)?;
        wait_until_quiet(std::process::id(), context.scale.settle())?;
        store.close()?;
    }
    let mut others = Others::new(MEMORY_LINES);
    let lookups = if context.scale.smoke { FEW_LOOKUPS } else { LOOKUPS };
    let engine = open(&folder, records)?;
    for round in 0..context.scale.rounds(ROUNDS) {
        measure(&mut contest, &engine, (records, lookups), &mut others, round as u64)?;
        let subject = contest.subject("one access to main memory");
        contest.add(subject, &[others.access_ns(lookups), f64::NAN, f64::NAN]);
    }
    engine.close().or_fail(|| "cannot close ladoga".to_owned())?;
    context.scratch.remove("store");
    context.results.publish(&contest)
}

/// Opens the store and has every table load its index and its filter.
fn open(folder: &Path, records: u64) -> Outcome<Engine> {
    let env = ladoga_env::real::env().or_fail(|| "the system has no randomness".to_owned())?;
    let engine = Engine::open(env, folder, Options::new(MEMORY_BYTES, Durability::Never))
        .or_fail(|| "cannot open ladoga".to_owned())?;
    // The smallest table holds more records than that are between two of these.
    for number in (0..records).step_by(5000) {
        engine.get(&key(number)).or_fail(|| "ladoga cannot read".to_owned())?;
    }
    Ok(engine)
}

fn measure(
    contest: &mut Contest,
    engine: &Engine,
    (records, lookups): (u64, u64),
    others: &mut Others,
    round: u64,
) -> Outcome {
    let mut random = Random::new(3000 + round);
    let in_vain = engine.statistics().filter_negatives;
    let (mut turns, mut found) = (Vec::new(), 0_u64);
    for _ in 0..lookups / TURN {
        let keys: [_; TURN as usize] = std::array::from_fn(|_| key(random.below(records)));
        others.touch();
        let started = Instant::now();
        for key in &keys {
            match engine.get_cached(key, ReadTier::Memory).or_fail(|| "ladoga cannot read".to_owned())? {
                Cached::NeedsDisk(read) => drop(black_box(read)),
                Cached::Found(value) if value.inline_bytes() == VALUE_BYTES as u64 => found += 1,
                Cached::Found(_) | Cached::Absent => return failed("a record is not what was put"),
            }
        }
        turns.push(started.elapsed());
    }
    let measured = (turns.len() as u64 * TURN) as f64;
    let in_vain = engine.statistics().filter_negatives - in_vain;
    let subject = contest.subject("ladoga");
    contest.add(
        subject,
        &[
            median(turns).as_nanos() as f64 / TURN as f64,
            found as f64 * 100.0 / measured,
            in_vain as f64 / measured,
        ],
    );
    contest.command(subject, "in process: Options::new(128 MiB, Never), get_cached(key, ReadTier::Memory)");
    Ok(())
}

/// Whatever else the machine did in some of them.
fn median(mut turns: Vec<Duration>) -> Duration {
    turns.sort_unstable();
    turns[turns.len() / 2]
}

/// What else a machine has in its memory.
struct Others {
    words: Vec<u64>,
    next: usize,
}

impl Others {
    /// Each line names another one, all of them in one circle (Sattolo's shuffle).
    fn new(lines: usize) -> Self {
        let mut words = vec![0; lines * LINE_WORDS];
        for line in 0..lines {
            words[line * LINE_WORDS] = line as u64;
        }
        let mut random = Random::new(4000);
        for line in (1..lines).rev() {
            words.swap(line * LINE_WORDS, random.below(line as u64) as usize * LINE_WORDS);
        }
        Self { words, next: 0 }
    }

    /// Takes the caches of the processor.
    fn touch(&mut self) {
        let words = &self.words[self.next..self.next + OTHERS_BYTES / size_of::<u64>()];
        black_box(words.iter().step_by(LINE_WORDS).fold(0, |sum, word| sum ^ word));
        self.next = (self.next + words.len()) % self.words.len();
    }

    /// How long an access takes that has to wait for the one before it.
    fn access_ns(&self, lookups: u64) -> f64 {
        let mut line = 0;
        let turn = |_| {
            let started = Instant::now();
            line = (0..ACCESSES).fold(line, |line, _| self.words[line * LINE_WORDS] as usize);
            started.elapsed()
        };
        let turns = (0..lookups / TURN).map(turn).collect();
        median(turns).as_nanos() as f64 / f64::from(ACCESSES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accesses_go_round_all_of_the_memory() {
        let others = Others::new(1000);
        let (mut line, mut steps) = (0, 0);
        loop {
            line = others.words[line * LINE_WORDS] as usize;
            steps += 1;
            if line == 0 {
                break;
            }
        }
        assert_eq!(steps, 1000);
    }
}
