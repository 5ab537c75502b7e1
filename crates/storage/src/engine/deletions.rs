use std::sync::atomic::Ordering;

use ladoga_model::HybridClock;

use super::{Engine, Inner};

impl Engine {
    /// Says that every write older than this has arrived; what was deleted before it may go, be it by a tombstone or because
    /// its time was over. Never moves back.
    pub fn drop_tombstones_before(&self, timestamp: u64) {
        self.inner.upkeep.drop_before.fetch_max(timestamp, Ordering::Relaxed);
    }

    /// Keeps deletions until they are this old, if the wall clock decides when they go, and up to this time by the wall clock.
    pub fn keep_deletions(&self, age_ms: u64, until_ms: u64) {
        self.inner.upkeep.deletions_age_ms.store(age_ms, Ordering::Relaxed);
        self.inner.upkeep.deletions_kept_until_ms.fetch_max(until_ms, Ordering::Relaxed);
    }

    /// Up to which timestamp deletions may be gone that [`Engine::keep_deletions`] was to keep: a clock that was ahead, or a shorter time,
    /// has them dropped early. Asked behind a snapshot, it holds for the snapshot.
    pub fn deletions_dropped_up_to(&self) -> u64 {
        self.inner.upkeep.deletions_dropped_up_to.load(Ordering::Acquire)
    }

    /// Says that it is later than this by every clock that counts: values that had expired by then may lose their bytes. A
    /// tombstone with the same stamp stays until it may be dropped. Never moves back.
    pub fn drop_values_expired_before_ms(&self, time_ms: u64) {
        self.inner.upkeep.expired_before_ms.fetch_max(time_ms, Ordering::Relaxed);
    }
}

impl Inner {
    /// The timestamp before which everything that was deleted may be dropped.
    pub(crate) fn drop_before(&self) -> u64 {
        let told = self.upkeep.drop_before.load(Ordering::Relaxed);
        told.max(self.aged_ms(self.deletions_age_ms()).map_or(0, HybridClock::at_wall_ms))
    }

    /// The time before which values that expired may lose their bytes.
    pub(super) fn expired_before_ms(&self) -> u64 {
        self.upkeep.expired_before_ms.load(Ordering::Relaxed).max(self.aged_ms(0).unwrap_or(0))
    }

    /// Notes that deletions up to this timestamp are missing in the tables that a compaction is about to install. Answers it if it is to be
    /// durable with them: nobody asks for the deletions of a store that has never been told to keep some.
    pub(super) fn note_dropped(&self, up_to: u64) -> Option<u64> {
        let upkeep = &self.upkeep;
        if up_to == 0 || upkeep.deletions_kept_until_ms.load(Ordering::Relaxed) == 0 {
            return None;
        }
        upkeep.deletions_dropped_up_to.fetch_max(up_to, Ordering::Release);
        Some(up_to)
    }

    /// How old deletions have to be because somebody may still ask for them.
    fn deletions_age_ms(&self) -> u64 {
        let upkeep = &self.upkeep;
        let is_past = self.env.clock.wall_ms() >= upkeep.deletions_kept_until_ms.load(Ordering::Relaxed);
        if is_past { 0 } else { upkeep.deletions_age_ms.load(Ordering::Relaxed) }
    }

    /// The time before which nothing arrives any more, and that is so long ago, if that is decided by the wall clock.
    fn aged_ms(&self, age_ms_min: u64) -> Option<u64> {
        let age_ms = self.options.tombstone_age_ms_min?.max(age_ms_min);
        Some(self.env.clock.wall_ms().saturating_sub(age_ms))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use ladoga_env::Env;
    use ladoga_env::sim;
    use ladoga_model::{Stamp, Version};

    use super::*;
    use crate::{Background, Durability, KeptDeletions, Options, WriteBatch};

    fn open(env: &Env, kept_deletions: KeptDeletions) -> Engine {
        let options = Options {
            background: Background::Manual,
            tombstone_age_ms_min: Some(60_000),
            kept_deletions,
            memtable_bytes: Some(4 << 10),
            ..Options::new(16 << 20, Durability::Never)
        };
        Engine::open(env.clone(), Path::new("/data"), options).expect("a store that opens")
    }

    /// Deletes some keys, in a table.
    fn delete(engine: &Engine, wall_ms: u64) {
        let mut batch = WriteBatch::new();
        let version = Version { timestamp: HybridClock::at_wall_ms(wall_ms), node: 0 };
        for key in [b"a", b"b", b"c"] {
            batch.delete(key, Stamp::new(version));
        }
        engine.write_group(&[batch]).expect("room");
        engine.seal().expect("room");
        work(engine);
    }

    fn work(engine: &Engine) {
        while engine.step().expect("a sound disk") {}
    }

    fn deletions(engine: &Engine) -> u64 {
        engine.inner.current_levels().iter().map(|(_, table)| table.meta().tombstones).sum()
    }

    #[test]
    fn deletions_are_kept_for_as_long_as_somebody_may_ask_for_them() {
        let (env, _, clock) = sim::env(1);
        let engine = open(&env, KeptDeletions::default());
        let began_ms = env.clock.wall_ms();
        engine.keep_deletions(120_000, began_ms + 200_000);
        clock.advance(Duration::from_secs(190));
        assert_eq!(engine.inner.drop_before(), HybridClock::at_wall_ms(began_ms + 70_000));
        assert_eq!(engine.inner.expired_before_ms(), began_ms + 130_000, "the bytes of values may go");
        clock.advance(Duration::from_secs(20));
        assert_eq!(engine.inner.drop_before(), HybridClock::at_wall_ms(began_ms + 150_000));
    }

    /// The threads compact before anybody has a store that could be told.
    #[test]
    fn deletions_are_kept_from_the_start_on() {
        let (env, _, clock) = sim::env(1);
        let kept = KeptDeletions { age_ms: 600_000, until_ms: env.clock.wall_ms() + 900_000 };
        let engine = open(&env, kept);
        delete(&engine, env.clock.wall_ms());
        engine.close().expect("room");
        drop(engine);
        clock.advance(Duration::from_mins(2));
        for (kept, left) in [(kept, 3), (KeptDeletions::default(), 0)] {
            let engine = open(&env, kept);
            work(&engine);
            assert_eq!(deletions(&engine), left, "{kept:?}");
            engine.close().expect("room");
        }
    }
    /// Or else who asks for them by a clock that is right again takes them for ones that never were.
    #[test]
    fn what_was_dropped_although_it_was_to_be_kept_is_known_for_good() {
        let (env, _, clock) = sim::env(1);
        let kept = KeptDeletions { age_ms: 600_000, until_ms: env.clock.wall_ms() + 900_000 };
        for (kept, expected_ms) in [(KeptDeletions::default(), 0), (kept, env.clock.wall_ms())] {
            let engine = open(&env, kept);
            delete(&engine, env.clock.wall_ms());
            clock.jump_wall_ms(3_600_000);
            work(&engine);
            clock.jump_wall_ms(-3_600_000);
            assert_eq!(deletions(&engine), 0);
            let expected = HybridClock::at_wall_ms(expected_ms);
            assert_eq!(
                engine.deletions_dropped_up_to(),
                expected,
                "of a store that was never followed: none"
            );
            // Until the manifest was replaced.
            for _ in 0..30 {
                delete(&engine, env.clock.wall_ms());
            }
            engine.close().expect("room");
            drop(engine);
            assert_eq!(open(&env, KeptDeletions::default()).deletions_dropped_up_to(), expected);
        }
    }
}
