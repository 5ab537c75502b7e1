use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_cluster::{NodeId, Refusal, covers};
use ladoga_model::{Cell, Replicas, TraceContext, Value};
use ladoga_service::{Context, Error, KeyRange, NoPieces};

use super::fetch::RemotePieces;
use super::merged_value::{MergedValue, open_merged};
use super::starting::until_asked_again;
use crate::link::{PeerError, RemoteStream};
use crate::own::{OwnReplica, hear};
use crate::wire::{Answer, Record, Request, put_mark, put_record, take_record};
use ladoga_local::store::{CellFormat, Later, LocalStore, Piece, Pieces, RecordFormat, Store, StoreError};

/// What is merged at once, as a rule; a piece of a large value comes by itself.
const MERGED_PIECE_BYTES: usize = 64 << 10;
/// Keys that are looked at for one piece: a millisecond or two, after which others of the event loop have their turn.
const MERGED_LOOKS_MAX: u32 = 4 << 10;

/// Begins to stream the entities of all nodes, each key once, in its newest version. Asks all nodes at once, and uses those
/// that answer; refuses if they are too few for the replicas that were asked for: keys would be missing without a sign. The
/// request has already waited `waited_ms` for this node.
pub(crate) async fn merge<S: Store>(
    replica: Rc<OwnReplica<S>>,
    context: Context,
    range: KeyRange,
    format: Box<dyn RecordFormat>,
) -> Result<Box<dyn Pieces>, Error> {
    let Context { replicas, waited_ms, trace, .. } = context;
    let KeyRange { span, limit, .. } = range;
    let cluster = Arc::clone(&replica.cluster);
    let is_reverse = span.is_reverse;
    let has_values = format.wants_values();
    let (start, end) = (span.start.clone(), span.end.clone().unwrap_or_default());
    let request = Request::OpenCells { start, end, is_reverse, has_values };
    let own = cluster.own;
    let others = cluster.nodes.iter().map(|(id, _)| id).filter(|id| *id != own);
    let others: Vec<NodeId> = others.collect();
    let cell_format: CellFormat = if has_values { put_record } else { put_mark };
    let is_hidden = cluster.stability().hides_cells();
    let nothing = || -> Box<dyn Pieces> { Box::new(NoPieces) };
    let cells = if is_hidden { nothing() } else { replica.store.cells_of(span, cell_format) };
    let sources = vec![Source::new(own, cells)];
    let absent = Vec::new();
    // One time for all nodes and keys: that of this node, whatever the others' clocks show.
    let live_at_ms = cluster.versions.expiry_time_ms();
    let left = limit.unwrap_or(u64::MAX);
    let (large, has_ended) = (None, false);
    let mut merged =
        Merged { replica, sources, absent, replicas, live_at_ms, is_reverse, left, format, large, has_ended };
    let mut starting = merged.open_all((&request, trace), others).await;
    let left_ms = cluster.limits.quorum_timeout_ms.saturating_sub(waited_ms);
    let until_ms = merged.replica.core.now_ms() + left_ms;
    loop {
        if merged.missing().is_some() {
            merged.hear().await;
        }
        let Some(error) = merged.missing() else { return Ok(Box::new(merged)) };
        let is_in_time = merged.replica.core.now_ms() < until_ms;
        let is_asked = match starting.first() {
            Some(&node) if is_in_time => until_asked_again(&merged.replica, node).await,
            _ => false,
        };
        if !is_asked {
            return Err(error);
        }
        starting = merged.open_all((&request, trace), starting).await;
    }
}

/// The outcome of opening a peer's cells.
enum OpenedCells {
    Pieces(Box<dyn Pieces>),
    /// It is to be asked again.
    Starting,
    Absent(String),
}

impl OpenedCells {
    fn of(opened: Result<RemoteStream, Result<Answer, PeerError>>) -> OpenedCells {
        match opened {
            Ok(stream) => OpenedCells::Pieces(Box::new(RemotePieces::of_cells(stream))),
            Err(Ok(Answer::Refused(Refusal::Starting))) => OpenedCells::Starting,
            Err(Ok(Answer::Refused(refusal))) => OpenedCells::Absent(refusal.to_string()),
            Err(Ok(_)) => OpenedCells::Absent("it answers something else".to_owned()),
            Err(Err(error)) => OpenedCells::Absent(error.to_string()),
        }
    }
}

/// The cells of one node.
struct Source {
    node: NodeId,
    /// What has come and is not taken.
    bytes: Bytes,
    head: Option<Record>,
    rest: Option<Box<dyn Pieces>>,
}

impl Source {
    fn new(node: NodeId, pieces: Box<dyn Pieces>) -> Source {
        Source { node, bytes: Bytes::new(), head: None, rest: Some(pieces) }
    }

    /// Takes the next record off the current piece.
    fn advance(&mut self) -> Result<(), StoreError> {
        let taken = take_record(&mut self.bytes);
        self.head = taken.map_err(|error| StoreError::Unreadable { reason: error.to_string() })?;
        if self.head.is_none() && !self.bytes.is_empty() {
            return Err(StoreError::Unreadable { reason: "a piece ends within a record".to_owned() });
        }
        Ok(())
    }

    /// Takes a piece, which has a record, or keys would be missing without a sign.
    fn take(&mut self, (bytes, rest): Piece) -> Result<(), StoreError> {
        (self.bytes, self.rest) = (bytes, Some(rest));
        self.advance()?;
        let is_empty = || StoreError::Unreadable { reason: "a piece has no record".to_owned() };
        if self.head.is_some() { Ok(()) } else { Err(is_empty()) }
    }

    /// Asks for the next piece if the current one is used up; `None` if it is not, or if there are no more.
    fn refill(&mut self) -> Option<Later<Result<Option<Piece>, StoreError>>> {
        if self.head.is_some() { None } else { self.rest.take().map(Pieces::next) }
    }
}

/// The entities of all nodes. It has one piece of each at a time, so its memory does not depend on their number.
struct Merged<S: Store> {
    replica: Rc<OwnReplica<S>>,
    sources: Vec<Source>,
    /// Who takes no part, and why.
    absent: Vec<(NodeId, String)>,
    replicas: Replicas,
    /// Cells that had expired by this time are left out.
    live_at_ms: u64,
    is_reverse: bool,
    /// How many entities may still come.
    left: u64,
    format: Box<dyn RecordFormat>,
    /// A large value that is being passed on.
    large: Option<MergedValue>,
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
                match large.next(&self.replica).await? {
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
                self.refill().await?;
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

    /// Has these nodes take part, all at once; waits for those that could not be reached lately only if the others are too few.
    /// Answers which of them are starting, and may take part later.
    async fn open_all(
        &mut self,
        request: (&Request, Option<TraceContext>),
        nodes: Vec<NodeId>,
    ) -> Vec<NodeId> {
        self.absent.retain(|(node, _)| !nodes.contains(node));
        let cluster = Arc::clone(&self.replica.cluster);
        let peer = |node: NodeId| &cluster.peers[node.index()];
        let mut opening: Vec<_> =
            nodes.into_iter().map(|node| (node, self.replica.peers.link(node).open(request))).collect();
        opening.sort_by_key(|(node, _)| !peer(*node).is_reachable());
        let mut starting = Vec::new();
        for (node, opening) in opening {
            if let Some(why) = peer(node).unreachable_reason()
                && self.missing().is_none()
            {
                self.absent.push((node, why));
                continue;
            }
            match OpenedCells::of(opening.await) {
                OpenedCells::Pieces(pieces) => self.sources.push(Source::new(node, pieces)),
                OpenedCells::Absent(why) => self.absent.push((node, why)),
                OpenedCells::Starting => {
                    starting.push(node);
                    self.absent.push((node, Refusal::Starting.to_string()));
                }
            }
        }
        starting
    }

    /// The error if the nodes that take part are too few; it names the others.
    fn missing(&self) -> Option<Error> {
        let cluster = &self.replica.cluster;
        let counts = |node| {
            let takes_part = self.sources.iter().any(|source| source.node == node);
            takes_part && cluster.stability().has_all_of(node, cluster.own)
        };
        if covers(&cluster.placement, self.replicas, counts) {
            return None;
        }
        let rebuilding = self.sources.iter().filter(|source| !counts(source.node));
        let rebuilding =
            rebuilding.map(|source| format!("{} is being rebuilt", cluster.node_url(source.node)));
        let absent = self.absent.iter().map(|(node, why)| format!("{} {why}", cluster.node_url(*node)));
        let missing = absent.chain(rebuilding).collect();
        Some(Error::RangeIncomplete { replicas: self.replicas, missing })
    }

    /// Asks the nodes that take part, and were not whole by their last report, whether that has changed.
    async fn hear(&self) {
        let OwnReplica { cluster, peers, .. } = &*self.replica;
        let (own, stability) = (cluster.own, cluster.stability());
        let nodes = self.sources.iter().map(|source| source.node);
        let doubted = nodes.filter(|&node| node != own && !stability.has_all_of(node, own));
        let asked: Vec<_> =
            doubted.map(|node| hear(&self.replica, peers.link(node), stability, node)).collect();
        for answered in asked {
            answered.await;
        }
    }

    /// Makes sure that there is a record of each node that has any left; asks several nodes at once. Goes on without a node
    /// that fails, as long as the others are enough.
    async fn refill(&mut self) -> Result<(), StoreError> {
        let asked: Vec<_> = self.sources.iter_mut().map(Source::refill).collect();
        let mut failed = Vec::new();
        for (source, asked) in self.sources.iter_mut().zip(asked) {
            let Some(asked) = asked else { continue };
            match asked.await {
                Ok(None) => {}
                Ok(Some(piece)) => source.take(piece)?,
                Err(error) => failed.push((source.node, error)),
            }
        }
        for (node, error) in failed {
            self.sources.retain(|source| source.node != node);
            self.absent.push((node, error.to_string()));
            if let Some(error) = self.missing() {
                return Err(StoreError::Unreadable { reason: error.to_string() });
            }
        }
        Ok(())
    }

    /// Takes the next key off all nodes that have it; answers its newest version, and which nodes have that if its value is large, the
    /// nearest one last.
    fn take_newest(&mut self) -> Result<Option<(Vec<NodeId>, Record)>, StoreError> {
        let heads = self.sources.iter().filter_map(|source| source.head.as_ref());
        let keys = heads.map(|record| &record.key);
        let next = if self.is_reverse { keys.max() } else { keys.min() };
        let Some(key) = next.cloned() else { return Ok(None) };
        let has_values = self.format.wants_values();
        let mut newest: Option<(Vec<NodeId>, Record)> = None;
        for source in self.sources.iter_mut().rev() {
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
                self.large = Some(large);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::{Stamp, Version};

    use super::*;

    /// Pieces that are never asked for.
    struct Rest;

    impl Pieces for Rest {
        fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
            Box::pin(std::future::ready(Ok(None)))
        }
    }

    #[test]
    fn a_piece_that_is_cut_is_found_out() {
        let stamp = Stamp::new(Version { timestamp: 1, node: 0 });
        let mut piece = Vec::new();
        put_record(&mut piece, b"key", Cell { stamp, value: Some(Value::Inline(b"value")) });
        let take = |bytes: &[u8]| {
            let mut source = Source::new(NodeId(1), Box::new(Rest));
            source.take((Bytes::copy_from_slice(bytes), Box::new(Rest)))?;
            assert_eq!(source.head.as_ref().map(|record| &record.key[..]), Some(&b"key"[..]));
            source.advance()
        };
        assert_eq!(take(&piece), Ok(()));
        for cut in 0..piece.len() {
            assert!(matches!(take(&piece[..cut]), Err(StoreError::Unreadable { .. })), "cut after {cut}");
        }
        let twice = [&piece[..], &piece[..9]].concat();
        assert!(take(&twice).is_err(), "a part of another");
    }
}
