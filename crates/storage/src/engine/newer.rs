use bytes::Bytes;

use super::Snapshot;
use super::range::cell_of;
use crate::error::Error;
use crate::iterator::Merge;
use crate::value::Cell;

/// The cells of some keys that were written within some time, by their versions: deletions and what has expired included, the
/// newest cell of each key alone. In the order of the keys. May wait for the disk.
pub struct Newer {
    snapshot: Snapshot,
    merge: Merge,
    end: Option<Vec<u8>>,
    after: u64,
    up_to: u64,
}

/// What a bounded look for the next of them comes to.
pub enum NewerStep {
    /// A key and its newest cell.
    Found(Bytes, Cell),
    /// The bound was reached first; this is the key at which to go on.
    NotYet(Bytes),
    /// There is none left.
    End,
}

impl Snapshot {
    /// The cells from `start` on and before `end` with timestamps after `after`, and not after `up_to`. Tables that have
    /// nothing as new are not read.
    pub fn newer(&self, start: &[u8], end: Option<&[u8]>, after: u64, up_to: u64) -> Result<Newer, Error> {
        let sources = self.sources_if(|meta| meta.newest.timestamp > after)?;
        let merge = Merge::forward(sources, start, self.held_bytes_max())?;
        Ok(Newer { snapshot: self.clone(), merge, end: end.map(<[u8]>::to_vec), after, up_to })
    }
}

impl Newer {
    /// The next one. Looks at no more than `looks` cells, and takes off `looks` how many it looked at.
    pub fn step(&mut self, looks: &mut u32) -> Result<NewerStep, Error> {
        loop {
            self.snapshot.check()?;
            let Some((record, source)) = self.merge.current()? else { return Ok(NewerStep::End) };
            if self.end.as_deref().is_some_and(|end| record.key >= end) {
                return Ok(NewerStep::End);
            }
            let Some(left) = looks.checked_sub(1) else {
                return Ok(NewerStep::NotYet(Bytes::copy_from_slice(record.key)));
            };
            *looks = left;
            // An older cell may be here because the table with the newest one was left out; that one is no newer than `after`.
            let timestamp = record.stamp.version.timestamp;
            let is_wanted = self.after < timestamp && timestamp <= self.up_to;
            let found = if is_wanted { Some(cell_of(&record, source)?) } else { None };
            self.merge.advance()?;
            if let Some((key, cell)) = found {
                return Ok(NewerStep::Found(key, cell));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use ladoga_env::Rng;
    use ladoga_env::sim::SimRng;
    use ladoga_model::{Stamp, Version};

    use super::*;
    use crate::{Background, Durability, Engine, Options, WriteBatch};

    const KEYS: u64 = 300;

    fn engine() -> Engine {
        let (env, _, _) = ladoga_env::sim::env(1);
        let options = Options {
            background: Background::Manual,
            table_bytes: Some(4 << 10),
            ..Options::new(16 << 20, Durability::Never)
        };
        Engine::open(env, Path::new("/data"), options).expect("a new store")
    }

    /// In which order versions arrive does not matter, nor where their cells are.
    #[test]
    fn what_is_newer_is_what_a_walk_over_everything_finds() {
        let (engine, rng) = (engine(), SimRng::new(5));
        let mut model: BTreeMap<[u8; 2], (u64, bool)> = BTreeMap::new();
        for round in 0..2_000_u64 {
            let key = (rng.below(KEYS) as u16).to_be_bytes();
            let (timestamp, is_put) = (round * 10 + 1 + rng.below(500), rng.below(4) > 0);
            let (mut batch, stamp) = (WriteBatch::new(), Stamp::new(Version { timestamp, node: 0 }));
            if is_put {
                batch.put(&key, stamp, &[7; 100]);
            } else {
                batch.delete(&key, stamp);
            }
            engine.write_group(&[batch]).expect("room");
            let newest = model.entry(key).or_insert((timestamp, is_put));
            if newest.0 < timestamp {
                *newest = (timestamp, is_put);
            }
            match round % 97 {
                0 => engine.seal().expect("room"),
                1..20 => {
                    engine.step().expect("a sound disk");
                }
                50 => check(&engine, &model, &rng, round * 10),
                _ => {}
            }
        }
        assert!(engine.statistics().compactions > 0);
    }

    fn check(engine: &Engine, model: &BTreeMap<[u8; 2], (u64, bool)>, rng: &SimRng, newest: u64) {
        let (after, up_to) = (rng.below(newest + 1), newest.saturating_sub(rng.below(300)));
        let start = (rng.below(KEYS) as u16).to_be_bytes();
        let end = (rng.below(2) == 0).then(|| (rng.below(KEYS * 2) as u16).to_be_bytes());
        let is_wanted = |key: &[u8; 2], timestamp| {
            start <= *key && end.is_none_or(|end| *key < end) && after < timestamp && timestamp <= up_to
        };
        let expected: Vec<_> =
            model.iter().filter(|(key, (timestamp, _))| is_wanted(key, *timestamp)).collect();
        let mut found = Vec::new();
        let mut at = Bytes::copy_from_slice(&start);
        // Each piece from a snapshot of its own.
        'pieces: loop {
            let end = end.as_ref().map(<[u8; 2]>::as_slice);
            let mut newer = engine.snapshot().newer(&at, end, after, up_to).expect("sound");
            let mut looks = 1 + rng.below(20) as u32;
            loop {
                match newer.step(&mut looks).expect("sound") {
                    NewerStep::Found(key, cell) => found.push((key, cell)),
                    NewerStep::NotYet(key) => {
                        at = key;
                        continue 'pieces;
                    }
                    NewerStep::End => break 'pieces,
                }
            }
        }
        assert_eq!(found.len(), expected.len());
        for ((key, cell), (expected_key, (timestamp, is_put))) in found.iter().zip(expected) {
            assert_eq!((&key[..], cell.stamp.version.timestamp), (&expected_key[..], *timestamp));
            assert_eq!(cell.value.is_some(), *is_put);
        }
    }
}
