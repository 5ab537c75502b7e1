use std::collections::VecDeque;

use bytes::Bytes;
use ladoga_service::{Error, KeyRange, Later, Piece, Pieces, RecordFormat, StoreError};
use tokio::task::JoinError;

use super::merge::Merge;
use super::record::{MergedRow, Record, RecordValue};
use super::slice::Page;
use crate::at::At;
use crate::failure::{of_store, unreadable};
use crate::pieces::ValuePieces;

/// A piece of an answer is about so long.
const PIECE_BYTES: usize = 256 << 10;
/// So many keys are looked at for the next records, and so many bytes of values are read, but for the first of them.
const WINDOW_ROWS: usize = 4_096;
const WINDOW_BYTES: u64 = 4 << 20;

/// The records of a range, on their way to a client.
pub(crate) struct RangePieces {
    at: At,
    merge: Merge,
    /// How many records may still come.
    left: u64,
    /// Those that are read and not written yet.
    ready: VecDeque<MergedRow>,
    /// The value that is being written, if it is in pieces.
    large: Option<ValuePieces>,
    format: Box<dyn RecordFormat>,
    is_ended: bool,
}

impl RangePieces {
    /// Reads the first records: what is wrong with that can still be said by a status.
    pub(crate) async fn begin(
        at: At,
        range: KeyRange,
        format: Box<dyn RecordFormat>,
    ) -> Result<RangePieces, Error> {
        let buckets = at.keyspace.meta.buckets;
        let page = Page::of(&range, buckets, format.wants_values());
        let merge = Merge::new(buckets, &range.span, page);
        let left = range.limit.unwrap_or(u64::MAX);
        let runtime = at.shared.runtime.clone();
        let mut pieces =
            RangePieces { at, merge, left, ready: VecDeque::new(), large: None, format, is_ended: false };
        let began = runtime.spawn(async move {
            pieces.read_on().await?;
            Ok(pieces)
        });
        began.await.unwrap_or_else(|error| Err(Error::Store(ended(&error))))
    }

    /// The next bytes; none at the end.
    async fn write(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut out = Vec::with_capacity(PIECE_BYTES);
        if self.is_ended {
            return Ok(None);
        }
        if self.large.is_some() {
            self.write_large(&mut out).await?;
            return Ok(Some(out));
        }
        if self.ready.is_empty() && !self.is_at_end() {
            self.read_on().await.map_err(of_store)?;
        }
        while out.len() < PIECE_BYTES
            && self.large.is_none()
            && let Some(merged) = self.ready.pop_front()
        {
            self.write_record(&mut out, merged).await.map_err(of_store)?;
        }
        if self.ready.is_empty() && self.large.is_none() && self.is_at_end() {
            self.format.end(&mut out);
            self.is_ended = true;
        }
        Ok(Some(out))
    }

    fn is_at_end(&self) -> bool {
        self.left == 0 || self.merge.is_at_end()
    }

    async fn write_record(&mut self, out: &mut Vec<u8>, merged: MergedRow) -> Result<(), Error> {
        let is_in_pieces = matches!(merged.row.value, RecordValue::InPieces(_));
        let now = if is_in_pieces { self.at.as_it_is_now(merged).await? } else { Some(merged.row) };
        let Some(Record { key, mark, value }) = now else {
            self.left += 1;
            return Ok(());
        };
        match value {
            RecordValue::Inline(value) => self.format.record(out, &key, mark.stamp, &value),
            RecordValue::Unread => self.format.record(out, &key, mark.stamp, &[]),
            RecordValue::InPieces(name) => {
                self.format.begin_large(out, &key, mark.stamp, mark.length);
                self.large = Some(ValuePieces::new(self.at.clone(), name, mark.length));
            }
        }
        Ok(())
    }

    async fn write_large(&mut self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let Some(large) = &mut self.large else { return Ok(()) };
        match large.read().await? {
            Some(bytes) => self.format.large(out, &bytes),
            None => {
                self.format.end_large(out);
                self.large = None;
            }
        }
        Ok(())
    }

    /// Reads the next keys, and the values of them.
    async fn read_on(&mut self) -> Result<(), Error> {
        self.merge.feed(&self.at).await?;
        let now_ms = self.at.shared.clock.wall_ms();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for _ in 0..WINDOW_ROWS {
            if rows.len() as u64 >= self.left || bytes > WINDOW_BYTES {
                break;
            }
            let Some(merged) = self.merge.next() else { break };
            if !merged.row.mark.stamp.is_expired(now_ms) {
                bytes += merged.row.unread_bytes().unwrap_or(0);
                rows.push(merged);
            }
        }
        if self.format.wants_values() {
            rows = self.at.values(rows).await?;
        } else {
            rows.iter_mut().for_each(|merged: &mut MergedRow| merged.row.value = RecordValue::Unread);
        }
        // What was written in between may expire by now.
        let now_ms = self.at.shared.clock.wall_ms();
        self.ready.extend(rows.into_iter().filter(|merged| !merged.row.mark.stamp.is_expired(now_ms)));
        self.left -= self.ready.len() as u64;
        Ok(())
    }
}

/// Bytes of the answer, and what writes the rest.
type Written = Option<(Vec<u8>, Box<RangePieces>)>;

impl Pieces for RangePieces {
    /// Runs on the driver's threads: merging takes them longer than an event loop can be without.
    fn next(mut self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let runtime = self.at.shared.runtime.clone();
        let written = runtime.spawn(async move {
            let bytes = self.write().await?;
            Ok(bytes.map(|bytes| (bytes, self)))
        });
        Box::pin(async move {
            let written: Result<Written, StoreError> =
                written.await.unwrap_or_else(|error| Err(ended(&error)));
            Ok(written?.map(|(bytes, rest)| (Bytes::from(bytes), rest as Box<dyn Pieces>)))
        })
    }
}

/// The work was given up because the door stops, or it has a defect.
fn ended(error: &JoinError) -> StoreError {
    if error.is_panic() {
        return unreadable(format_args!(
            "the range ended by a defect of the door, which its log tells: {error}"
        ));
    }
    StoreError::Unreachable { reason: "the door is stopping".into() }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_defect_is_not_told_as_a_door_that_stops() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let failed = runtime.block_on(runtime.spawn(async { panic!("of this test") }));
        let error: JoinError = failed.expect_err("it panics");
        assert!(matches!(ended(&error), StoreError::Unreadable { .. }));
        let pending = runtime.spawn(std::future::pending::<()>());
        pending.abort();
        let error = runtime.block_on(pending).expect_err("it was given up");
        assert!(matches!(ended(&error), StoreError::Unreachable { .. }));
    }
}
