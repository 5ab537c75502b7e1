use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::NodeId;
use ladoga_model::{Cell, Value};
use ladoga_service::{Context, Error, KeyRange};

use super::merged_value::open_merged;
use super::sources::Sources;
use crate::own::OwnReplica;
use crate::wire::Record;
use ladoga_local::store::{Later, Piece, Pieces, RecordFormat, Store, StoreError};

/// What is merged at once, as a rule; a piece of a large value comes by itself.
const MERGED_PIECE_BYTES: usize = 64 << 10;
/// Keys that are looked at for one piece: a millisecond or two, after which others of the event loop have their turn.
const MERGED_LOOKS_MAX: u32 = 4 << 10;

/// Begins to stream the entities of all nodes, each key once, in its newest version.
pub(crate) async fn merge<S: Store>(
    replica: Rc<OwnReplica<S>>,
    context: Context,
    range: KeyRange,
    format: Box<dyn RecordFormat>,
) -> Result<Box<dyn Pieces>, Error> {
    let KeyRange { span, limit, .. } = range;
    let is_reverse = span.is_reverse;
    // One time for all nodes and keys: that of this node, whatever the others' clocks show.
    let live_at_ms = replica.cluster.versions.expiry_time_ms();
    let sources = Sources::open(Rc::clone(&replica), &context, span, format.wants_values()).await?;
    let left = limit.unwrap_or(u64::MAX);
    let (large, has_ended) = (None, false);
    Ok(Box::new(Merged { replica, sources, live_at_ms, is_reverse, left, format, large, has_ended }))
}

/// The entities of all nodes. It has one piece of each at a time, so its memory does not depend on their number.
struct Merged<S: Store> {
    replica: Rc<OwnReplica<S>>,
    sources: Sources<S>,
    /// Cells that had expired by this time are left out.
    live_at_ms: u64,
    is_reverse: bool,
    /// How many entities may still come.
    left: u64,
    format: Box<dyn RecordFormat>,
    /// A large value that is being passed on.
    large: Option<Box<dyn Pieces>>,
    /// Nothing comes any more.
    has_ended: bool,
}

impl<S: Store> Pieces for Merged<S> {
    fn next(mut self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        Box::pin(async move {
            if self.has_ended {
                return Ok(None);
            }
            let mut out = Vec::with_capacity(MERGED_PIECE_BYTES);
            self.merge_piece(&mut out).await?;
            let is_nothing = self.has_ended && out.is_empty();
            Ok((!is_nothing).then(|| (Bytes::from(out), self as Box<dyn Pieces>)))
        })
    }
}

impl<S: Store> Merged<S> {
    /// Merges about as much as a piece has, or as many keys as may be looked at before others have their turn.
    async fn merge_piece(&mut self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let mut looks = 0;
        while out.len() < MERGED_PIECE_BYTES {
            if let Some(large) = self.large.take() {
                match large.next().await? {
                    Some((bytes, rest)) => {
                        self.large = Some(rest);
                        self.format.large(out, &bytes);
                    }
                    None => self.format.end_large(out),
                }
                continue;
            }
            if looks == MERGED_LOOKS_MAX {
                break;
            }
            looks += 1;
            let found = if self.left == 0 {
                None
            } else {
                self.sources.refill().await?;
                self.take_newest()?
            };
            let Some((holders, record)) = found else {
                self.format.end(out);
                self.has_ended = true;
                break;
            };
            self.write(holders, record, out).await?;
        }
        Ok(())
    }

    /// Takes the next key off all nodes that have it; answers its newest version, and which nodes have that if its value is large, the
    /// nearest one last.
    fn take_newest(&mut self) -> Result<Option<(Vec<NodeId>, Record)>, StoreError> {
        let heads = self.sources.taking_part.iter().filter_map(|source| source.head.as_ref());
        let keys = heads.map(|record| &record.key);
        let next = if self.is_reverse { keys.max() } else { keys.min() };
        let Some(key) = next.cloned() else { return Ok(None) };
        let has_values = self.format.wants_values();
        let mut newest: Option<(Vec<NodeId>, Record)> = None;
        for source in self.sources.taking_part.iter_mut().rev() {
            let Some(record) = source.head.take_if(|record| record.key == key) else { continue };
            source.advance()?;
            let version = |record: &Record| record.cell.stamp.version;
            let is_large = has_values && matches!(record.cell.value, Some(Value::Large(_)));
            match &mut newest {
                Some((_, best)) if version(best) > version(&record) => {}
                Some((holders, best)) if version(best) == version(&record) => {
                    holders.extend(is_large.then_some(source.node));
                }
                _ => newest = Some((is_large.then_some(source.node).into_iter().collect(), record)),
            }
        }
        Ok(newest)
    }

    async fn write(
        &mut self,
        holders: Vec<NodeId>,
        record: Record,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let Record { key, cell } = record;
        let Cell { stamp, value: Some(value) } = cell.as_of_ms(|| self.live_at_ms) else { return Ok(()) };
        let (stamp, value) = match value {
            Value::Large(bytes) if self.format.wants_values() => {
                let opened = open_merged(&self.replica, holders, (key.clone(), stamp, bytes)).await?;
                // It may have been deleted meanwhile.
                let cell = opened.as_of_ms(|| self.live_at_ms);
                let Cell { stamp, value: Some(value) } = cell else { return Ok(()) };
                (stamp, value)
            }
            Value::Large(_) => (stamp, Value::Inline(Bytes::new())),
            Value::Inline(value) => (stamp, Value::Inline(value)),
        };
        self.left -= 1;
        match value {
            Value::Inline(value) => self.format.record(out, &key, stamp, &value),
            Value::Large(large) => {
                self.format.begin_large(out, &key, stamp, large.bytes);
                self.large = Some(large.pieces);
            }
        }
        Ok(())
    }
}
