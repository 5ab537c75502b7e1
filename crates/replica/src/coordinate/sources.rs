use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Incarnation, NodeId, Refusal, covers};
use ladoga_model::{Replicas, TraceContext};
use ladoga_service::{Context, Error, KeySpan, NoPieces};
use tokio::time::{Instant, timeout_at};

use super::remote_pieces::RemotePieces;
use super::starting::until_asked_again;
use crate::link::{PeerError, RemoteStream};
use crate::own::{OwnReplica, hear};
use crate::wire::{Answer, Record, Request, put_mark, put_record, take_record};
use ladoga_local::store::{CellFormat, Later, LocalStore, Piece, Pieces, Store, StoreError};

/// What each node is asked for.
struct CellsAsked {
    request: Request,
    trace: Option<TraceContext>,
    span: KeySpan,
    format: CellFormat,
    /// By when it has to be decided whether enough nodes take part.
    until_ms: u64,
}

impl CellsAsked {
    fn new(span: KeySpan, has_values: bool, (trace, until_ms): (Option<TraceContext>, u64)) -> CellsAsked {
        let (start, end) = (span.start.clone(), span.end.clone().unwrap_or_default());
        let request = Request::OpenCells { start, end, is_reverse: span.is_reverse, has_values };
        let format: CellFormat = if has_values { put_record } else { put_mark };
        CellsAsked { request, trace, span, format, until_ms }
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
pub(super) struct Source {
    pub(super) node: NodeId,
    /// Whether it was whole before they were opened, so that they are all that it acknowledged. If it became whole later, they
    /// may lack what it got back.
    counts: bool,
    /// What has come and is not taken.
    bytes: Bytes,
    pub(super) head: Option<Record>,
    rest: Option<Box<dyn Pieces>>,
}

impl Source {
    fn new(node: NodeId, counts: bool, pieces: Box<dyn Pieces>) -> Source {
        Source { node, counts, bytes: Bytes::new(), head: None, rest: Some(pieces) }
    }

    /// Takes the next record off the current piece.
    pub(super) fn advance(&mut self) -> Result<(), StoreError> {
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

/// Why a node takes no part any more. Its URL is said before that.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::TooFewReplicas(few) => few.failures.iter().map(|(_, why)| &**why).collect(),
        error => error.to_string(),
    }
}

/// The nodes whose cells a range has.
pub(super) struct Sources<S: Store> {
    replica: Rc<OwnReplica<S>>,
    replicas: Replicas,
    /// This node is the first, if it is among them.
    pub(super) taking_part: Vec<Source>,
    /// Who takes no part, and why.
    absent: Vec<(NodeId, String)>,
}

impl<S: Store> Sources<S> {
    /// Opens the cells of all nodes, and uses those that answer in the time of the request. Refuses if they are too few for the
    /// replicas that were asked for: keys would be missing without a sign.
    pub(super) async fn open(
        replica: Rc<OwnReplica<S>>,
        context: &Context,
        span: KeySpan,
        has_values: bool,
    ) -> Result<Sources<S>, Error> {
        let &Context { replicas, waited_ms, trace, .. } = context;
        let cluster = Arc::clone(&replica.cluster);
        let left_ms = cluster.limits.quorum_timeout_ms.saturating_sub(waited_ms);
        let asked = CellsAsked::new(span, has_values, (trace, replica.core.now_ms() + left_ms));
        let mut sources = Sources { replica, replicas, taking_part: Vec::new(), absent: Vec::new() };
        let mut nodes: Vec<NodeId> = cluster.nodes.iter().map(|(id, _)| id).collect();
        loop {
            let mut starting = sources.open_all(&asked, nodes).await;
            if sources.missing().is_some() {
                sources.hear(&asked).await;
                let whole = sources.take_those_whole_since();
                starting.extend(sources.open_all(&asked, whole).await);
            }
            let Some(error) = sources.missing() else { return Ok(sources) };
            let is_in_time = sources.left_ms(&asked) > 0;
            let is_asked = match starting.first() {
                Some(&node) if is_in_time => until_asked_again(&sources.replica, node).await,
                _ => false,
            };
            if !is_asked {
                return Err(error);
            }
            nodes = starting;
        }
    }

    fn left_ms(&self, asked: &CellsAsked) -> u64 {
        asked.until_ms.saturating_sub(self.replica.core.now_ms())
    }

    /// Has these nodes take part, all at once; waits for those that could not be reached lately only if the others are too few.
    /// Answers which of them are starting, and may take part later.
    async fn open_all(&mut self, asked: &CellsAsked, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let cluster = Arc::clone(&self.replica.cluster);
        let peer = |node: NodeId| &cluster.peers[node.index()];
        let left_ms = self.left_ms(asked);
        let until = Instant::now() + Duration::from_millis(left_ms);
        if nodes.contains(&cluster.own) {
            self.taking_part.insert(0, self.open_own(asked));
        }
        let others = nodes.into_iter().filter(|&node| node != cluster.own);
        let open = |node| {
            let was_whole = self.whole_directory(node);
            (node, was_whole, self.replica.peers.link(node).open((&asked.request, asked.trace)))
        };
        let mut opening: Vec<_> = others.map(open).collect();
        opening.sort_by_key(|(node, ..)| !peer(*node).is_reachable());
        let mut starting = Vec::new();
        for (node, was_whole, opening) in opening {
            if let Some(why) = peer(node).unreachable_reason()
                && self.missing().is_none()
            {
                self.set_absent(node, why);
                continue;
            }
            let Ok(opened) = timeout_at(until, opening).await else {
                self.set_late(node, left_ms);
                continue;
            };
            match OpenedCells::of(opened) {
                OpenedCells::Pieces(pieces) => {
                    // Before it was asked, and with the directory that answered.
                    let counts = was_whole.is_some() && self.whole_directory(node) == was_whole;
                    self.absent.retain(|(absent, _)| *absent != node);
                    self.taking_part.push(Source::new(node, counts, pieces));
                }
                OpenedCells::Absent(why) => self.set_absent(node, why),
                OpenedCells::Starting => {
                    starting.push(node);
                    self.set_absent(node, Refusal::Starting.to_string());
                }
            }
        }
        starting
    }

    fn open_own(&self, asked: &CellsAsked) -> Source {
        let OwnReplica { cluster, store, .. } = &*self.replica;
        let stability = cluster.stability();
        // Before they are opened: what comes in meanwhile may be behind them.
        let counts = stability.has_all();
        let nothing = || -> Box<dyn Pieces> { Box::new(NoPieces) };
        let cells = || store.cells_of(asked.span.clone(), asked.format);
        let cells = if stability.hides_cells() { nothing() } else { cells() };
        Source::new(cluster.own, counts, cells)
    }

    /// The directory of a peer, if that is whole by its last report.
    fn whole_directory(&self, node: NodeId) -> Option<Incarnation> {
        let OwnReplica { cluster, .. } = &*self.replica;
        let stability = cluster.stability();
        let is_whole = stability.has_all_of(node, cluster.own);
        is_whole.then(|| stability.incarnations(&[node]).into_iter().next()).flatten()
    }

    fn set_absent(&mut self, node: NodeId, why: String) {
        self.absent.retain(|(absent, _)| *absent != node);
        self.absent.push((node, why));
    }

    /// It was asked and did not answer in time. If it did before, what it said is worth more.
    fn set_late(&mut self, node: NodeId, limit_ms: u64) {
        if self.absent.iter().all(|(absent, _)| *absent != node) {
            self.absent.push((node, format!("gave no answer within {limit_ms} ms")));
        }
    }

    /// The error if the nodes that take part are too few; it names the others.
    fn missing(&self) -> Option<Error> {
        let cluster = &self.replica.cluster;
        let counts = |node| self.taking_part.iter().any(|source| source.node == node && source.counts);
        if covers(&cluster.placement, self.replicas, counts) {
            return None;
        }
        let rebuilding = self.taking_part.iter().filter(|source| !source.counts);
        let rebuilding =
            rebuilding.map(|source| format!("{} is being rebuilt", cluster.node_url(source.node)));
        let absent = self.absent.iter().map(|(node, why)| format!("{} {why}", cluster.node_url(*node)));
        let missing = absent.chain(rebuilding).collect();
        Some(Error::RangeIncomplete { replicas: self.replicas, missing })
    }

    /// Asks the nodes that take part, and were not whole by their last report, whether that has changed.
    async fn hear(&self, asked: &CellsAsked) {
        let OwnReplica { cluster, peers, .. } = &*self.replica;
        let (own, stability) = (cluster.own, cluster.stability());
        let until = Instant::now() + Duration::from_millis(self.left_ms(asked));
        let nodes = self.taking_part.iter().map(|source| source.node);
        let doubted = nodes.filter(|&node| node != own && !stability.has_all_of(node, own));
        let hearing: Vec<_> =
            doubted.map(|node| hear(&self.replica, peers.link(node), stability, node)).collect();
        for heard in hearing {
            // Whoever is late is as it was.
            let _ = timeout_at(until, heard).await;
        }
    }

    /// Takes out the nodes that have become whole since their cells were opened: those are to be opened again, which is only
    /// possible before anything is taken from them.
    fn take_those_whole_since(&mut self) -> Vec<NodeId> {
        let cluster = Arc::clone(&self.replica.cluster);
        let is_whole = |node| cluster.stability().has_all_of(node, cluster.own);
        let taken = self.taking_part.extract_if(.., |source| !source.counts && is_whole(source.node));
        taken.map(|source| source.node).collect()
    }

    /// Makes sure that there is a record of each node that has any left; asks several nodes at once. Goes on without a node
    /// that fails, as long as the others are enough.
    pub(super) async fn refill(&mut self) -> Result<(), StoreError> {
        let asked: Vec<_> = self.taking_part.iter_mut().map(Source::refill).collect();
        let mut failed = Vec::new();
        for (source, asked) in self.taking_part.iter_mut().zip(asked) {
            let Some(asked) = asked else { continue };
            match asked.await {
                Ok(None) => {}
                Ok(Some(piece)) => source.take(piece)?,
                Err(error) => failed.push((source.node, error)),
            }
        }
        for (node, error) in failed {
            self.taking_part.retain(|source| source.node != node);
            self.set_absent(node, reason(&error));
            if let Some(missing) = self.missing() {
                let reason = missing.to_string();
                return Err(match error {
                    StoreError::Unreadable { .. } => StoreError::Unreadable { reason },
                    _ => StoreError::RangeBroken { reason: reason.into() },
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::{Cell, Stamp, Value, Version};

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
            let mut source = Source::new(NodeId(1), true, Box::new(Rest));
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
