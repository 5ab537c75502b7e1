//! Pieces that no row names any more: of values that were replaced, deleted or expired, or whose upload was never finished.
//!
//! A write does not look at what it replaces, so it cannot remove the pieces of that. Each door looks through the list of all large
//! values from time to time. What two looks find unnamed, with the time in between for which readers may go on, is removed, once nothing
//! is left anywhere of a row that names it. Several doors may do so at the same time: what is removed twice is removed.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use ladoga_model::Replicas;
use ladoga_service::Error;
use scylla::statement::Consistency;

use crate::at::At;
use crate::failure::unreachable;
use crate::keyspace::{Keyspace, UploadName};
use crate::read::{Part, not_ours};
use crate::row::decode_version;
use crate::shared::Shared;
use crate::upload::age_ms;

/// So many large values without a row are remembered in a keyspace; others wait for the next look.
const UNNAMED_MAX: usize = 65_536;
/// There are so many looks in the time for which pieces are kept.
const LOOKS: u64 = 4;
/// So many large values are read from the list at a time.
const PAGE_ROWS: usize = 256;

/// When a look found values first that no row names, nor ever will.
#[derive(Default)]
struct Unnamed(HashMap<UploadName, u64>);

impl Unnamed {
    /// Since when looks know that no row names a value, of which one finds now whether a row does. `None` as long as one may name it
    /// still: it could do so, and be replaced, between two looks. What is named is forgotten, whatever becomes of the look.
    fn since_ms(&mut self, name: &UploadName, is_named: bool, now_ms: u64, keep_ms: u64) -> Option<u64> {
        if is_named {
            self.0.remove(name);
            return None;
        }
        let is_over = age_ms(name, now_ms) >= keep_ms;
        is_over.then(|| self.0.get(name).copied().unwrap_or(now_ms))
    }

    fn note(&mut self, name: UploadName, since_ms: u64) {
        if self.0.len() < UNNAMED_MAX {
            self.0.insert(name, since_ms);
        }
    }
}

/// What a look has come to.
#[derive(Default)]
struct Look {
    unnamed: Unnamed,
    /// How many buckets and large values could not be looked at, and why not, of the first one.
    passed_over: u64,
    why: Option<Error>,
}

impl Look {
    fn pass_over(&mut self, why: Error) {
        self.passed_over += 1;
        self.why.get_or_insert(why);
    }

    /// What is known of a value from before stays if it could not be looked at.
    fn pass_over_value(&mut self, name: UploadName, before: &Unnamed, why: Error) {
        if let Some(&since_ms) = before.0.get(&name) {
            self.unnamed.note(name, since_ms);
        }
        self.pass_over(why);
    }
}

/// How a row is read that may name pieces which are removed if it does not. Both ways, however this door writes: there may be rows from
/// before that was changed.
const LAST_LOOKS: [Consistency; 2] = [
    // A lightweight transaction that some have accepted, and that was not finished, is finished by this, or can be no more.
    Consistency::Serial,
    // A plain row need not be on more than one of the nodes, and that one may have been away.
    Consistency::All,
];

/// Looks for as long as the driver is there.
pub(crate) async fn sweep(shared: Weak<Shared>) {
    let mut unnamed: HashMap<u32, Unnamed> = HashMap::new();
    loop {
        let Some(pause_ms) = shared.upgrade().map(|shared| (shared.settings.pieces_keep_ms / LOOKS).max(1))
        else {
            return;
        };
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        let Some(shared) = shared.upgrade() else { return };
        for keyspace in shared.existing_keyspaces().await {
            let (from, replicas) = (keyspace.from, Replicas::majority_of(keyspace.from));
            let at =
                At { session: Arc::clone(&shared.session), shared: Arc::clone(&shared), keyspace, replicas };
            let before = unnamed.entry(from).or_default();
            let Look { unnamed, passed_over, why } = at.look(before).await;
            *before = unnamed;
            if let Some(error) = why {
                tracing::warn!(
                    %error, passed_over, copies = from,
                    "it is not known of all large values whether rows name their pieces; it is looked again later"
                );
            }
        }
    }
}

impl Shared {
    /// Also those that no request here has asked for. They are prepared for one look: whatever becomes of them, this door is ready.
    async fn existing_keyspaces(&self) -> Vec<Arc<Keyspace>> {
        let mut keyspaces: Vec<_> = self.used().filter_map(|(_, _, found)| found.ok()).collect();
        let existing = self.place.existing(&self.session).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "pieces of values are looked for where requests were only");
            Vec::new()
        });
        for from in existing.into_iter().filter(|from| *from <= self.place.replicas_max) {
            if keyspaces.iter().any(|keyspace| keyspace.from == from) {
                continue;
            }
            match Keyspace::prepare(&self.session, self.wanted(from), &self.attempts).await {
                Ok(keyspace) => keyspaces.push(Arc::new(keyspace)),
                Err(error) => tracing::warn!(%error, "pieces of values are not looked for in this keyspace"),
            }
        }
        keyspaces
    }
}

impl At {
    /// Removes what was unnamed long enough; answers what is unnamed now. What cannot be looked at holds up nothing else.
    async fn look(&self, before: &mut Unnamed) -> Look {
        let mut look = Look::default();
        for bucket in 0..self.keyspace.meta.buckets {
            if let Err(error) = self.look_in(bucket, before, &mut look).await {
                let names = before.0.keys().filter(|name| self.keyspace.bucket(&name.key) == bucket);
                for name in names {
                    let since_ms = before.0[name];
                    look.unnamed.note(name.clone(), since_ms);
                }
                look.pass_over(error);
            }
        }
        look
    }

    async fn look_in(&self, bucket: i32, before: &mut Unnamed, look: &mut Look) -> Result<(), Error> {
        let mut last = (Bytes::new(), Bytes::new());
        loop {
            let rows = self.uploads(bucket, &last).await?;
            let is_last = rows.len() < PAGE_ROWS;
            for (key, upload) in &rows {
                let Some(upload) = decode_version(upload) else {
                    look.pass_over(not_ours(key));
                    continue;
                };
                let name = UploadName { key: Bytes::copy_from_slice(key), upload };
                if let Err(error) = self.look_at(&name, before, look).await {
                    look.pass_over_value(name, before, error);
                }
            }
            match rows.into_iter().next_back() {
                Some(row) if !is_last => last = row,
                _ => return Ok(()),
            }
        }
    }

    /// Some of the large values that were begun in this bucket and not removed yet, as they are listed: those that follow this one.
    async fn uploads(
        &self,
        bucket: i32,
        (key, upload): &(Bytes, Bytes),
    ) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let values = (bucket, key, upload, PAGE_ROWS as i32);
        let found = self.rows(&self.keyspace.pieces.uploads, values, self.read()).await?;
        let wrong = |error: &dyn std::fmt::Display| unreachable(format_args!("Cassandra's answer: {error}"));
        let rows = found.rows::<(Bytes, Bytes)>().map_err(|error| wrong(&error))?;
        rows.map(|row| row.map_err(|error| wrong(&error))).collect()
    }

    async fn look_at(&self, name: &UploadName, before: &mut Unnamed, look: &mut Look) -> Result<(), Error> {
        let is_named = self.is_named(name, Consistency::Quorum).await?;
        let (now_ms, keep_ms) = (self.shared.clock.wall_ms(), self.shared.settings.pieces_keep_ms);
        let Some(since_ms) = before.since_ms(name, is_named, now_ms, keep_ms) else { return Ok(()) };
        if now_ms.saturating_sub(since_ms) < keep_ms {
            look.unnamed.note(name.clone(), since_ms);
            return Ok(());
        }
        for consistency in LAST_LOOKS {
            if self.is_named(name, consistency).await? {
                before.0.remove(name);
                return Ok(());
            }
        }
        self.remove_pieces(name).await?;
        self.shared.counts.swept.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the row of the key names these pieces.
    async fn is_named(&self, name: &UploadName, consistency: Consistency) -> Result<bool, Error> {
        let row = self.row(&name.key, Part::Mark, consistency).await?;
        Ok(row.and_then(|row| row.mark.upload) == Some(name.upload))
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::{HybridClock, Version};

    use super::*;
    use crate::upload::may_be_named;

    const KEEP_MS: u64 = 3_600_000;
    const LOOK_MS: u64 = KEEP_MS / LOOKS;
    /// As far as the clock of a door may be ahead, and as long as a row may be on its way.
    const MARGIN_MS: u64 = 120_000;
    const BEGAN_MS: u64 = 1_700_000_000_000;

    fn upload() -> UploadName {
        let upload = Version { timestamp: HybridClock::at_wall_ms(BEGAN_MS), node: 1 };
        UploadName { key: Bytes::from_static(b"key"), upload }
    }

    /// When it is removed, as long as each look finds it unnamed.
    fn removed_ms(first_look_ms: u64) -> u64 {
        let (name, mut unnamed) = (upload(), Unnamed::default());
        let mut looks = (first_look_ms..).step_by(LOOK_MS as usize);
        let is_over = |now_ms: &u64| {
            let since_ms = unnamed.since_ms(&name, false, *now_ms, KEEP_MS);
            unnamed.0.extend(since_ms.map(|since_ms| (name.clone(), since_ms)));
            since_ms.is_some_and(|since_ms| now_ms - since_ms >= KEEP_MS)
        };
        looks.find(is_over).expect("it is removed")
    }

    /// A value of an hour's upload was stored without its first pieces, and what was named and replaced between two looks was gone before
    /// its readers had their hour.
    #[test]
    fn pieces_stay_for_an_hour_after_a_row_may_have_named_them() {
        let mut times_ms = BEGAN_MS..=BEGAN_MS + 2 * KEEP_MS;
        let last_ms = times_ms.rfind(|now_ms| may_be_named(&upload(), *now_ms, KEEP_MS));
        let last_ms = last_ms.expect("a row that is in time") + MARGIN_MS;
        assert!(last_ms > BEGAN_MS + KEEP_MS / 4);
        for first_look_ms in [BEGAN_MS, BEGAN_MS + 1, BEGAN_MS + LOOK_MS - 1] {
            let removed_ms = removed_ms(first_look_ms);
            assert!(removed_ms >= last_ms + KEEP_MS, "{first_look_ms}");
            assert!(removed_ms <= BEGAN_MS + 2 * KEEP_MS + 2 * LOOK_MS, "{first_look_ms}");
        }
        let long_after_ms = BEGAN_MS + 10 * KEEP_MS;
        assert_eq!(removed_ms(long_after_ms), long_after_ms + KEEP_MS);
    }

    #[test]
    fn what_a_row_names_is_unnamed_no_longer() {
        let (name, mut unnamed) = (upload(), Unnamed::default());
        let now_ms = BEGAN_MS + 10 * KEEP_MS;
        unnamed.0.insert(name.clone(), now_ms);
        assert_eq!(unnamed.since_ms(&name, false, now_ms + 1, KEEP_MS), Some(now_ms));
        assert_eq!(unnamed.since_ms(&name, true, now_ms + 2, KEEP_MS), None);
        assert_eq!(unnamed.since_ms(&name, false, now_ms + 3, KEEP_MS), Some(now_ms + 3));
    }
}
