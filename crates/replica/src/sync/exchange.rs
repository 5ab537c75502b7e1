//! Anti-entropy: what each peer has and this node lacks, as `ladoga_cluster` says, on one event loop of a node.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{
    Cell, Content, NodeId, Origin, Prune, PullFailure, PullProgress, PullStep, ReadAnswer, Refusal,
    SyncRound, SyncSession,
};
use ladoga_cluster::{KeyVersion, PullRequest, PullResponse};
use ladoga_model::{HybridClock, Version};
use tokio::sync::mpsc;

use super::prune::prune;
use crate::coordinate;
use crate::link::PeerLink;
use crate::own::OwnReplica;
use crate::own::replica;
use crate::planted::{Bug, has};
use crate::stability::Stability;
use crate::wire::{Answer, PeerValue, Request};
use ladoga_local::store::{LocalStore, Lookup, Store};

/// How often it is looked what there is to be pulled.
const LOOK_EVERY_MS: u64 = 500;
/// How often the tree is filled anew at most, whatever peers ask to be compared: that reads the whole store.
const FILL_EVERY_MS: u64 = 5 * 60_000;

/// A key or a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Held {
    Bytes(Bytes),
    /// A value that is streamed.
    Large,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        match self {
            Held::Bytes(bytes) => bytes,
            // Only keys are looked into.
            Held::Large => &[],
        }
    }
}

enum Event {
    Answered(u64, PullResponse<Held>),
    Found(Bytes, Option<Version>),
    Applied(Bytes, Result<(), Refusal>),
    /// The peer cannot be asked.
    Lost(String),
}

/// Pulls what this node lacks, as long as the event loop runs.
pub(super) async fn exchange<S: Store>(replica: Rc<OwnReplica<S>>) {
    let cluster = &replica.cluster;
    let stability = Arc::clone(cluster.stability());
    let mut ticks = tokio::time::interval(Duration::from_millis(LOOK_EVERY_MS));
    let mut filled_at_ms = None;
    loop {
        ticks.tick().await;
        let mut dropped_before = stability.drop_tombstones();
        if has(Bug::DropTombstonesByTime) {
            let since_ms = replica.cluster.versions.time_ms().saturating_sub(5_000);
            dropped_before = dropped_before.max(HybridClock::at_wall_ms(since_ms));
        }
        if dropped_before > 0 {
            replica.shared.drop_tombstones_before(dropped_before);
        }
        let now_ms = replica.core.now_ms();
        let may_fill = filled_at_ms.is_none_or(|then_ms| now_ms >= then_ms + FILL_EVERY_MS);
        if may_fill && stability.is_to_be_filled() {
            filled_at_ms = Some(now_ms);
            replica.shared.tell_again();
        }
        let wanted = cluster.exchange.wanted.load(Ordering::Acquire);
        if wanted > cluster.exchange.repaired.load(Ordering::Acquire) {
            repair(&replica, &stability).await;
            cluster.exchange.repaired.store(wanted, Ordering::Release);
        }
        let Some(pass) = stability.pass() else { continue };
        make(&replica, &stability, &pass).await;
    }
}

/// Pulls everything from every peer, because somebody asked for it.
async fn repair<S: Store>(replica: &Rc<OwnReplica<S>>, stability: &Arc<Stability>) {
    let cluster = &replica.cluster;
    let mut trouble = Vec::new();
    for peer in cluster.peers.iter().filter(|peer| peer.id != cluster.own) {
        let puller = Puller { replica, stability, link: replica.peers.link(peer.id) };
        if let Err(why) = puller.pull(peer.id, u64::MAX).await {
            trouble.push(format!("{}: {why}", peer.url));
        }
    }
    *cluster.exchange.trouble.lock() = (!trouble.is_empty()).then(|| trouble.join("; "));
}

async fn make<S: Store>(replica: &Rc<OwnReplica<S>>, stability: &Arc<Stability>, pass: &SyncRound) {
    let view = &replica.cluster.exchange;
    view.peers_left.store(pass.peers.len() as u64, Ordering::Relaxed);
    for &peer in &pass.peers {
        let link = replica.peers.link(peer);
        match (Puller { replica, stability, link }).pull(peer, pass.before).await {
            Ok(()) => {
                stability.pulled(pass.number, peer);
                view.peers_left.fetch_sub(1, Ordering::Relaxed);
            }
            Err(why) => {
                tracing::debug!("anti-entropy with {} broke off: {why}", link.url());
                view.failures.fetch_add(1, Ordering::Relaxed);
                // Another time, as of another moment.
                stability.abandon(pass.number);
                return;
            }
        }
    }
    view.passes.fetch_add(1, Ordering::Relaxed);
}

/// One pull from one peer.
struct Puller<'p, S: Store> {
    replica: &'p Rc<OwnReplica<S>>,
    stability: &'p Arc<Stability>,
    link: &'p Rc<PeerLink>,
}

impl<S: Store> Puller<'_, S> {
    async fn pull(self, peer: NodeId, before: u64) -> Result<(), String> {
        let (send, mut events) = mpsc::unbounded_channel();
        let mut steps = VecDeque::new();
        let too_late = || "the tree is not whole".to_owned();
        let pull = self
            .stability
            .with_tree(|tree| SyncSession::new(peer, before, tree, |step| steps.push_back(step)));
        let mut pull = pull.ok_or_else(too_late)?.pruning(self.stability.prune_before(peer));
        let mut applied_before = 0;
        loop {
            while let Some(step) = steps.pop_front() {
                match step {
                    PullStep::Ask(number, asked) => self.ask(&send, number, asked),
                    PullStep::Compare => {
                        // Everything else has its turn before.
                        tokio::task::yield_now().await;
                        let step = |step| steps.push_back(step);
                        self.stability.with_tree(|tree| pull.compare(tree, step)).ok_or_else(too_late)?;
                    }
                    PullStep::Look(key) => self.look(&send, key),
                    PullStep::Apply(key, cell) => self.apply(&send, key, cell).await,
                    PullStep::Prune(of) => {
                        let pruned = self.prune(peer, of).await;
                        pull.pruned(pruned, |step| steps.push_back(step));
                    }
                    PullStep::Done => return Ok(()),
                    PullStep::Failed(failure) => {
                        if let PullFailure::NotToldApart { at } = failure {
                            self.stability.refill_tree_from(at);
                        }
                        return Err(failure.to_string());
                    }
                }
            }
            let event = events.recv().await.ok_or_else(too_late)?;
            let mut step = |step| steps.push_back(step);
            match event {
                Event::Answered(number, response) => self
                    .stability
                    .with_tree(|tree| pull.answered(number, response, tree, &mut step))
                    .ok_or_else(too_late)?,
                Event::Found(key, version) => pull.found(&Held::Bytes(key), version, step),
                Event::Applied(key, result) => pull.applied(&Held::Bytes(key), result, step),
                Event::Lost(why) => return Err(why),
            }
            self.note(pull.progress(), &mut applied_before);
        }
    }

    fn note(&self, progress: PullProgress, applied_before: &mut u64) {
        let view = &self.replica.cluster.exchange;
        view.partitions.store(progress.partitions as u64, Ordering::Relaxed);
        view.compared.store(progress.compared, Ordering::Relaxed);
        view.applied.store(progress.applied, Ordering::Relaxed);
        view.applied_total.fetch_add(progress.applied - *applied_before, Ordering::Relaxed);
        *applied_before = progress.applied;
    }

    fn ask(&self, send: &mpsc::UnboundedSender<Event>, number: u64, asked: PullRequest<Held>) {
        let request = match asked {
            PullRequest::Groups(slice) => Request::Groups(slice),
            PullRequest::Leaves { slice, groups } => Request::Leaves { slice, groups },
            PullRequest::List { slice, partitions, after } => {
                Request::List { slice, partitions, after: after.map(bytes_of).unwrap_or_default() }
            }
            PullRequest::Cell(key) => {
                Request::Read { key: bytes_of(key), digest: false, origin: Origin::Exchange }
            }
        };
        let asked = self.link.ask(&request);
        let send = send.clone();
        tokio::task::spawn_local(async move {
            let event = match asked.await.map(response) {
                Ok(Some(response)) => Event::Answered(number, response),
                Ok(None) => Event::Lost("an answer to something else".to_owned()),
                Err(error) => Event::Lost(error.to_string()),
            };
            // Where the pull is over, nobody waits.
            let _ = send.send(event);
        });
    }

    fn look(&self, send: &mpsc::UnboundedSender<Event>, key: Held) {
        let key = bytes_of(key);
        let found = self.replica.store.get_cell(&key);
        let send = send.clone();
        tokio::task::spawn_local(async move {
            let found = match found {
                Lookup::Now(found) => found,
                Lookup::Later(found) => found.await,
            };
            let _ = send.send(match found {
                Ok(found) => Event::Found(key, found.map(|cell| cell.stamp.version)),
                Err(error) => Event::Lost(error.to_string()),
            });
        });
    }

    async fn prune(&self, peer: NodeId, of: Prune<Held>) -> Result<(), Refusal> {
        let Prune { partitions, after, until, before, listed } = of;
        let of = Prune {
            partitions,
            after: after.map(bytes_of),
            until: until.map(bytes_of),
            before,
            listed: listed.into_iter().map(bytes_of).collect(),
        };
        prune(self.replica, peer, &of).await
    }

    async fn apply(&self, send: &mpsc::UnboundedSender<Event>, key: Held, cell: Cell<Held>) {
        let key = bytes_of(key);
        let bytes = match &cell.content {
            Content::Value(Held::Bytes(value)) => value.len() as u64,
            _ => 0,
        };
        self.replica.cluster.pace.draw_cell(bytes).await;
        let replica = Rc::clone(self.replica);
        let (link, send) = (Rc::clone(self.link), send.clone());
        tokio::task::spawn_local(async move {
            let result = write(&replica, &link, &key, cell).await;
            let _ = send.send(Event::Applied(key, result));
        });
    }
}

async fn write<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    link: &Rc<PeerLink>,
    key: &Bytes,
    cell: Cell<Held>,
) -> Result<(), Refusal> {
    let Cell { stamp, content } = cell;
    let value = match content {
        Content::Value(Held::Large) => {
            return coordinate::take_large(replica, link, key, stamp).await;
        }
        Content::Value(Held::Bytes(value)) => Some(value),
        Content::Tombstone | Content::Digest => None,
    };
    replica::apply(replica, (key, stamp, value.as_deref()), Origin::Exchange)?.await
}

fn bytes_of(held: Held) -> Bytes {
    match held {
        Held::Bytes(bytes) => bytes,
        Held::Large => unreachable!("keys are bytes"),
    }
}

/// The answer of a peer, in the words of the machine; `None` where it is none to a pull.
fn response(answer: Answer) -> Option<PullResponse<Held>> {
    Some(match answer {
        Answer::Read(ReadAnswer { cell, .. }) => {
            let cell = cell.map(|Cell { stamp, content }| {
                let content = match content {
                    Content::Value(PeerValue::Inline(bytes)) => Content::Value(Held::Bytes(bytes)),
                    Content::Value(PeerValue::Large(_)) => Content::Value(Held::Large),
                    Content::Tombstone => Content::Tombstone,
                    Content::Digest => Content::Digest,
                };
                Cell { stamp, content }
            });
            PullResponse::Cell(cell)
        }
        Answer::Groups { dropped_before, hashes } => PullResponse::Groups { dropped_before, hashes },
        Answer::Leaves(leaves) => PullResponse::Leaves(leaves),
        Answer::List { entries, next } => {
            let held = |listed: KeyVersion<Bytes>| {
                let KeyVersion { key, stamp, is_tombstone } = listed;
                KeyVersion { key: Held::Bytes(key), stamp, is_tombstone }
            };
            PullResponse::List {
                entries: entries.into_iter().map(held).collect(),
                next: next.map(Held::Bytes),
            }
        }
        Answer::Refused(refusal) => PullResponse::Refused(refusal),
        _ => return None,
    })
}
