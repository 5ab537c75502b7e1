//! Pieces that no row names any more: of values that were replaced, deleted or expired, or whose upload was never finished.
//!
//! A write does not look at what it replaces, so it cannot remove the pieces of that. Each door looks through the list of all large
//! values from time to time. What two looks find unnamed, with the time in between for which readers may go on, is removed. Several
//! doors may do so at the same time: what is removed twice is removed.

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
use crate::keyspace::UploadName;
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
}

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
        let keyspaces: Vec<_> = shared.keyspaces().map(Arc::clone).collect();
        for keyspace in keyspaces {
            let (from, replicas) = (keyspace.from, Replicas::majority_of(keyspace.from));
            let at =
                At { session: Arc::clone(&shared.session), shared: Arc::clone(&shared), keyspace, replicas };
            let before = unnamed.entry(from).or_default();
            match at.look(before).await {
                Ok(found) => *before = found,
                Err(error) => tracing::debug!(%error, "pieces that no row names cannot be looked for now"),
            }
        }
    }
}

impl At {
    /// Removes what was unnamed long enough; answers what is unnamed now.
    async fn look(&self, before: &mut Unnamed) -> Result<Unnamed, Error> {
        let mut found = Unnamed::default();
        for bucket in 0..self.keyspace.buckets {
            let mut last = None;
            loop {
                let names = self.uploads(bucket, last.as_ref()).await?;
                let is_last = names.len() < PAGE_ROWS;
                last = names.last().cloned();
                for name in names {
                    self.look_at(name, before, &mut found).await?;
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Some of the large values that were begun in this bucket and not removed yet: those that follow this one.
    async fn uploads(&self, bucket: i32, after: Option<&UploadName>) -> Result<Vec<UploadName>, Error> {
        let (key, upload) =
            after.map_or((&[][..], Vec::new()), |after| (&after.key[..], after.columns().1.to_vec()));
        let values = (bucket, key, upload, PAGE_ROWS as i32);
        let found = self.rows(&self.keyspace.pieces.uploads, values, self.read()).await?;
        let wrong = |error: &dyn std::fmt::Display| unreachable(format_args!("Cassandra's answer: {error}"));
        let rows = found.rows::<(Bytes, Bytes)>().map_err(|error| wrong(&error))?;
        let mut names = Vec::new();
        for row in rows {
            let (key, upload) = row.map_err(|error| wrong(&error))?;
            let upload = decode_version(&upload).ok_or_else(|| not_ours(&key))?;
            names.push(UploadName { key: Bytes::copy_from_slice(&key), upload });
        }
        Ok(names)
    }

    async fn look_at(
        &self,
        name: UploadName,
        before: &mut Unnamed,
        found: &mut Unnamed,
    ) -> Result<(), Error> {
        let row = self.row(&name.key, Part::Mark, Consistency::Quorum).await?;
        let is_named = row.and_then(|row| row.mark.upload) == Some(name.upload);
        let (now_ms, keep_ms) = (self.shared.clock.wall_ms(), self.shared.settings.pieces_keep_ms);
        let Some(since_ms) = before.since_ms(&name, is_named, now_ms, keep_ms) else { return Ok(()) };
        if now_ms.saturating_sub(since_ms) >= keep_ms {
            self.remove_pieces(&name).await?;
            self.shared.counts.swept.fetch_add(1, Ordering::Relaxed);
        } else if found.0.len() < UNNAMED_MAX {
            found.0.insert(name, since_ms);
        }
        Ok(())
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
