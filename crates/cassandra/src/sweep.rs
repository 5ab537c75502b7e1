//! Pieces that no row names any more: of values that were replaced, deleted or expired, or whose upload was never finished.
//!
//! A write does not look at what it replaces, so it cannot remove the pieces of that. Each door looks through the list of all large
//! values from time to time. What two looks find unnamed, with the time in between for which readers may go on, is removed, once nothing
//! is left anywhere of a row that names it. Several doors may do so at the same time: what is removed twice is removed.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{StreamExt, iter};
use ladoga_model::Replicas;
use ladoga_service::Error;
use scylla::statement::Consistency;

use crate::at::At;
use crate::failure::unreachable;
use crate::keyspace::{Keyspace, UploadName};
use crate::read::{Part, not_ours};
use crate::row::decode_version;
use crate::shared::Shared;
use crate::unnamed::Unnamed;

/// There are so many looks in the time for which pieces are kept.
pub(crate) const LOOKS: u64 = 4;
/// So many large values are read from the list at a time.
const PAGE_ROWS: usize = 256;
/// The rows of so many of them are read at a time, and the pieces of so many removed: one after the other, a door would not keep up with
/// what is written.
const STATEMENTS_MAX: usize = 16;

/// What a look could not do.
#[derive(Default)]
struct PassedOver {
    /// How many buckets and large values could not be looked at, and why not, of the first one.
    count: u64,
    why: Option<Error>,
    /// Buckets of which not all was looked at.
    buckets: BTreeSet<i32>,
}

impl PassedOver {
    fn add(&mut self, why: Error) {
        self.count += 1;
        self.why.get_or_insert(why);
    }
}

/// A row that may name pieces is read in both ways before they are removed, however this door writes: there may be rows from before that
/// was changed.
///
/// A lightweight transaction that some have accepted, and that was not finished, is finished by this, or can be no more.
const LAST_LOOK_DECIDED: Consistency = Consistency::Serial;
/// A plain row need not be on more than one of the nodes, and that one may have been away.
const LAST_LOOK_PLAIN: Consistency = Consistency::All;

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
        let mut waiting = 0;
        for keyspace in shared.existing_keyspaces().await {
            let (from, replicas) = (keyspace.from, Replicas::majority_of(keyspace.from));
            let at =
                At { session: Arc::clone(&shared.session), shared: Arc::clone(&shared), keyspace, replicas };
            let unnamed = unnamed.entry(from).or_default();
            let (passed_over, left_out) = at.look(unnamed).await;
            waiting += unnamed.count() + left_out;
            if let Some(error) = passed_over.why {
                tracing::warn!(
                    %error, passed_over = passed_over.count, copies = from,
                    "it is not known of all large values whether rows name their pieces; it is looked again later"
                );
            }
            if left_out > 0 {
                tracing::warn!(
                    left_out,
                    noted = unnamed.count(),
                    copies = from,
                    "more large values are without a row than a door notes; the pieces of the others are removed later"
                );
            }
        }
        shared.counts.unnamed.store(waiting, Ordering::Relaxed);
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
            // Nothing is made here: who makes a keyspace by hand may not have come to its tables yet.
            match Keyspace::find(&self.session, self.wanted(from), &self.attempts).await {
                Ok(Some(keyspace)) => keyspaces.push(Arc::new(keyspace)),
                Ok(None) => tracing::debug!(copies = from, "a keyspace without tables has no pieces"),
                Err(error) => tracing::warn!(%error, "pieces of values are not looked for in this keyspace"),
            }
        }
        keyspaces
    }
}

impl At {
    /// Removes what was unnamed long enough, and notes what is unnamed now. What cannot be looked at holds up nothing else. Answers what
    /// that was, and how many there was no room to note.
    async fn look(&self, unnamed: &mut Unnamed) -> (PassedOver, u64) {
        let mut passed_over = PassedOver::default();
        for bucket in 0..self.keyspace.meta.buckets {
            if let Err(error) = self.look_in(bucket, unnamed, &mut passed_over).await {
                passed_over.buckets.insert(bucket);
                passed_over.add(error);
            }
        }
        let left_out = unnamed.end_look(&passed_over.buckets);
        (passed_over, left_out)
    }

    async fn look_in(
        &self,
        bucket: i32,
        unnamed: &mut Unnamed,
        passed_over: &mut PassedOver,
    ) -> Result<(), Error> {
        let mut last = (Bytes::new(), Bytes::new());
        loop {
            let rows = self.uploads(bucket, &last).await?;
            let is_last = rows.len() < PAGE_ROWS;
            let mut names = Vec::with_capacity(rows.len());
            for (key, upload) in &rows {
                match decode_version(upload) {
                    Some(upload) => names.push(UploadName { key: Bytes::copy_from_slice(key), upload }),
                    None => passed_over.add(not_ours(key)),
                }
            }
            self.look_at(bucket, names, unnamed, passed_over).await;
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

    async fn look_at(
        &self,
        bucket: i32,
        names: Vec<UploadName>,
        unnamed: &mut Unnamed,
        passed_over: &mut PassedOver,
    ) {
        let reads: Vec<_> = names.into_iter().map(|name| self.clone().read_row_of(bucket, name)).collect();
        let read: Vec<_> = iter(reads).buffer_unordered(STATEMENTS_MAX).collect().await;
        let (now_ms, keep_ms) = (self.shared.clock.wall_ms(), self.shared.settings.pieces_keep_ms);
        let mut over = Vec::new();
        for (name, is_named) in read {
            match is_named {
                Ok(is_named) => {
                    if unnamed.note(bucket, &name, is_named, now_ms, keep_ms) {
                        over.push(name);
                    }
                }
                Err(error) => {
                    unnamed.keep(&name);
                    passed_over.add(error);
                }
            }
        }
        for (name, removed) in self.remove_unnamed(bucket, over).await {
            match removed {
                Ok(()) => unnamed.forget(&name),
                Err(error) => passed_over.add(error),
            }
        }
    }

    async fn read_row_of(self, bucket: i32, name: UploadName) -> (UploadName, Result<bool, Error>) {
        let is_named = self.is_named(bucket, &name, Consistency::Quorum).await;
        (name, is_named)
    }

    /// Removes the pieces of those that no row names after all.
    async fn remove_unnamed(
        &self,
        bucket: i32,
        names: Vec<UploadName>,
    ) -> Vec<(UploadName, Result<(), Error>)> {
        let mut ended = Vec::with_capacity(names.len());
        let mut left = Vec::with_capacity(names.len());
        // One after the other: Cassandra decides about one at a time in a bucket, and others are in the way of clients' writes.
        for name in names {
            match self.is_named(bucket, &name, LAST_LOOK_DECIDED).await {
                Ok(false) => left.push(name),
                named => ended.push((name, named.map(drop))),
            }
        }
        let removals: Vec<_> =
            left.into_iter().map(|name| self.clone().remove_if_unnamed(bucket, name)).collect();
        ended.extend(iter(removals).buffer_unordered(STATEMENTS_MAX).collect::<Vec<_>>().await);
        ended
    }

    async fn remove_if_unnamed(self, bucket: i32, name: UploadName) -> (UploadName, Result<(), Error>) {
        let removed = async {
            if !self.is_named(bucket, &name, LAST_LOOK_PLAIN).await? {
                self.remove_pieces(bucket, &name).await?;
                self.shared.counts.swept.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let removed = removed.await;
        (name, removed)
    }

    /// Whether a row of the key names these pieces: the one in the bucket that lists them, where the door has it that wrote them, or the one
    /// in the bucket where this door has it. These differ once somebody has changed the number of buckets.
    async fn is_named(
        &self,
        bucket: i32,
        name: &UploadName,
        consistency: Consistency,
    ) -> Result<bool, Error> {
        let own = self.keyspace.bucket(&name.key);
        for bucket in std::iter::once(bucket).chain((own != bucket).then_some(own)) {
            let row = self.row_in(bucket, &name.key, Part::Mark, consistency).await?;
            if row.and_then(|row| row.mark.upload) == Some(name.upload) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
