use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{Cell, Content, NodeId};
use ladoga_model::Version;

use super::fetch::{RemotePieces, open_remote};
use crate::http::Refusal;
use crate::peers::wire::{Answer, PeerValue, Record, Request, put_record, take_record};
use crate::peers::{Cluster, PeerLink, Peers};
use crate::server::EventLoop;
use crate::store::{
    Later, LocalStore, Lookup, Piece, Pieces, RecordFormat, Store, StoreError, StoredCell, Value,
};

/// What is merged at once, as a rule; a piece of a large value comes by itself.
const MERGED_PIECE_BYTES: usize = 64 << 10;

/// Begins to stream the entities of all nodes, each key once, in its newest version. Asks all nodes at once, and
/// refuses where one cannot be: its keys would be missing without a sign.
pub(crate) async fn merge<S: Store>(
    event_loop: Rc<EventLoop<S>>,
    store: Rc<S::Local>,
    (start, end): (Bytes, Option<Bytes>),
    format: RecordFormat,
) -> Result<Box<dyn Pieces>, Refusal> {
    let peers = Rc::clone(event_loop.peers().expect("a merge is for a node of a cluster"));
    let cluster = Rc::clone(&peers);
    let cluster = &cluster.cluster;
    let request = Request::OpenCells { start: start.clone(), end: end.clone().unwrap_or_default() };
    let others = cluster.nodes.iter().map(|(id, _)| id).filter(|id| *id != cluster.own);
    let opening: Vec<_> = others.map(|id| (id, peers.link(id).ask(&request))).collect();
    let mut sources = vec![Source::new(cluster.own, store.cells(start, end, put_record))];
    for (id, opening) in opening {
        let link = peers.link(id);
        sources.push(Source::new(id, opened(cluster, link, opening.await)?));
    }
    Ok(Box::new(Merged { peers, store, sources, format, large: None }))
}

fn opened(
    cluster: &Cluster,
    link: &Rc<PeerLink>,
    answer: Result<Answer, crate::peers::PeerError>,
) -> Result<Box<dyn Pieces>, Refusal> {
    let why = match answer {
        Ok(Answer::Opened(stream)) => return Ok(Box::new(RemotePieces::new(link, stream))),
        Ok(Answer::Refused(refusal)) => refusal.to_string(),
        Ok(_) => "it answers something else".to_owned(),
        Err(error) => error.to_string(),
    };
    let (url, nodes) = (link.url(), cluster.nodes.len());
    let line = format!("a range over the cluster needs all of its {nodes} nodes: {url} {why}");
    Err(Refusal::too_few_replicas(line))
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

    /// Takes the next record out of what is there.
    fn advance(&mut self) -> Result<(), StoreError> {
        let taken = take_record(&mut self.bytes);
        self.head = taken.map_err(|error| StoreError::Unreadable { reason: error.to_string() })?;
        Ok(())
    }

    /// Asks for more where there is nothing left; `None` where there is, or where there will be nothing.
    fn refill(&mut self) -> Option<Later<Result<Option<Piece>, StoreError>>> {
        if self.head.is_some() { None } else { self.rest.take().map(Pieces::next) }
    }
}

/// The entities of all nodes. It has one piece of each at a time, so its memory does not depend on their number.
struct Merged<S: LocalStore> {
    peers: Rc<Peers>,
    store: Rc<S>,
    sources: Vec<Source>,
    format: RecordFormat,
    /// A large value that is being passed on.
    large: Option<Box<dyn Pieces>>,
}

impl<S: LocalStore> Pieces for Merged<S> {
    fn next(mut self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        Box::pin(async move {
            let mut out = Vec::with_capacity(MERGED_PIECE_BYTES);
            while out.len() < MERGED_PIECE_BYTES {
                if let Some(large) = self.large.take() {
                    match large.next().await? {
                        Some((bytes, rest)) => {
                            self.large = Some(rest);
                            out.extend_from_slice(&bytes);
                        }
                        None => (self.format.end)(&mut out),
                    }
                    continue;
                }
                self.refill().await?;
                let Some((node, record)) = self.take_newest()? else { break };
                self.write(node, record, &mut out).await?;
            }
            Ok((!out.is_empty()).then(|| (Bytes::from(out), self as Box<dyn Pieces>)))
        })
    }
}

impl<S: LocalStore> Merged<S> {
    /// Has a record of each node that has any left; asks those that have to be asked at once.
    async fn refill(&mut self) -> Result<(), StoreError> {
        let asked: Vec<_> = self.sources.iter_mut().map(Source::refill).collect();
        for (source, asked) in self.sources.iter_mut().zip(asked) {
            let Some(asked) = asked else { continue };
            let Some((bytes, rest)) = asked.await? else { continue };
            (source.bytes, source.rest) = (bytes, Some(rest));
            source.advance()?;
        }
        Ok(())
    }

    /// Takes the smallest key off all nodes that have it; answers who has it in its newest version.
    fn take_newest(&mut self) -> Result<Option<(NodeId, Record)>, StoreError> {
        let heads = self.sources.iter().filter_map(|source| source.head.as_ref());
        let Some(key) = heads.map(|record| &record.key).min().cloned() else { return Ok(None) };
        let mut newest: Option<(NodeId, Record)> = None;
        for source in &mut self.sources {
            let Some(record) = source.head.take_if(|record| record.key == key) else { continue };
            source.advance()?;
            let version = |record: &Record| record.cell.stamp.version;
            if newest.as_ref().is_none_or(|(_, best)| version(best) < version(&record)) {
                newest = Some((source.node, record));
            }
        }
        Ok(newest)
    }

    async fn write(&mut self, node: NodeId, record: Record, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let Record { key, cell: Cell { stamp, content } } = record;
        match content {
            Content::Tombstone | Content::Digest => {}
            Content::Value(PeerValue::Inline(value)) => {
                (self.format.begin)(out, &key, value.len() as u64);
                out.extend_from_slice(&value);
                (self.format.end)(out);
            }
            Content::Value(PeerValue::Large(bytes)) => {
                // Replaced since then: the value of that moment is gone, and so is the range.
                let Some(pieces) = self.open(node, &key, stamp.version).await? else {
                    return Err(StoreError::Unreadable {
                        reason: "a large value was replaced while it was to be read".to_owned(),
                    });
                };
                (self.format.begin)(out, &key, bytes);
                self.large = Some(pieces);
            }
        }
        Ok(())
    }

    async fn open(
        &self,
        node: NodeId,
        key: &Bytes,
        version: Version,
    ) -> Result<Option<Box<dyn Pieces>>, StoreError> {
        if node != self.peers.cluster.own {
            return open_remote(self.peers.link(node), key, version).await;
        }
        let found = match self.store.get_cell(key) {
            Lookup::Now(found) => found,
            Lookup::Later(found) => found.await,
        };
        Ok(match found? {
            Some(StoredCell { stamp, value: Some(Value::Large { pieces, .. }) })
                if stamp.version == version =>
            {
                Some(pieces)
            }
            _ => None,
        })
    }
}
