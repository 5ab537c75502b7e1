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

/// So many large values without a row are remembered in a keyspace; others wait for the next look.
const UNNAMED_MAX: usize = 65_536;
/// There are so many looks in the time for which pieces are kept.
const LOOKS: u64 = 4;
/// So many large values are read from the list at a time.
const PAGE_ROWS: usize = 256;

/// When a look found values first that no row names.
type Unnamed = HashMap<UploadName, u64>;

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
    async fn look(&self, before: &Unnamed) -> Result<Unnamed, Error> {
        let mut found = Unnamed::new();
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

    async fn look_at(&self, name: UploadName, before: &Unnamed, found: &mut Unnamed) -> Result<(), Error> {
        let row = self.row(&name.key, Part::Mark, Consistency::Quorum).await?;
        if row.and_then(|row| row.mark.upload) == Some(name.upload) {
            return Ok(());
        }
        let now_ms = self.shared.clock.wall_ms();
        let since_ms = before.get(&name).copied().unwrap_or(now_ms);
        if now_ms.saturating_sub(since_ms) >= self.shared.settings.pieces_keep_ms {
            self.remove_pieces(&name).await?;
            self.shared.counts.swept.fetch_add(1, Ordering::Relaxed);
        } else if found.len() < UNNAMED_MAX {
            found.insert(name, since_ms);
        }
        Ok(())
    }
}
