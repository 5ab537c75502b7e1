use ladoga_model::{Cell, Value};
use ladoga_storage::{FinishedBlob, WriteBatch};

/// The size of a batch at which the next one begins. If a group is too large for the engine it is cut between batches, never
/// within one.
const BATCH_BYTES_MAX: usize = 64 << 10;
const BATCH_CELLS_MAX: usize = 256;
/// The share of the largest group that a batch may be before the cell that fills it: with the largest cell behind it, it
/// still fits.
const BATCH_GROUP_SHARE: usize = 8;

/// How long a batch may be before another one begins, of an engine whose groups are at most so long.
pub(super) fn batch_bytes_max(group_bytes_max: usize) -> usize {
    BATCH_BYTES_MAX.min(group_bytes_max / BATCH_GROUP_SHARE)
}

/// The batch that the next cell goes into.
pub(super) fn open_batch(batches: &mut Vec<WriteBatch>, bytes_max: usize) -> &mut WriteBatch {
    let is_full = |batch: &WriteBatch| batch.encoded_bytes() >= bytes_max || batch.len() >= BATCH_CELLS_MAX;
    if batches.last().is_none_or(is_full) {
        batches.push(WriteBatch::new());
    }
    batches.last_mut().expect("there is one now")
}

/// Adds a cell to a batch. Answers how many bytes it takes.
pub(super) fn add_cell<B: AsRef<[u8]>>(
    batch: &mut WriteBatch,
    key: &[u8],
    cell: Cell<B, FinishedBlob>,
) -> usize {
    let bytes_before = batch.encoded_bytes();
    match cell.value {
        Some(Value::Inline(value)) => batch.put(key, cell.stamp, value.as_ref()),
        Some(Value::Large(blob)) => batch.put_blob(key, cell.stamp, blob),
        None => batch.delete(key, cell.stamp),
    }
    batch.encoded_bytes() - bytes_before
}
