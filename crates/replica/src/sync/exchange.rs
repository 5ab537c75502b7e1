//! Anti-entropy: pulls what each peer has and this node lacks, driven by `ladoga_cluster`, on one event loop of a node.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{
    NodeId, Origin, PullFailure, PullProgress, PullRequest, PullResponse, PullStep, Refusal, SentCell,
    SyncRound, SyncSession, WriteAnswer,
};
use ladoga_model::{Cell, HybridClock, Value, Version};
use tokio::sync::mpsc;

use super::fenced;
use super::missed::OwnMisses;
use super::prune::prune;
use crate::coordinate::{self, ASK_AGAIN_AFTER_MS, NotTaken};
use crate::link::{PeerError, PeerLink};
use crate::own::OwnReplica;
use crate::own::replica;
use crate::planted::{Bug, has};
use crate::stability::Stability;
use crate::wire::{Answer, PeerCell, Request};
use ladoga_local::store::{LocalStore, Store, StoreError};

/// How often it checks what there is to pull.
const LOOK_EVERY_MS: u64 = 500;
/// How often the tree is filled anew at most, whatever peers ask to be compared: that reads the whole store.
const FILL_EVERY_MS: u64 = 5 * 60_000;
/// How long an answer of a peer is waited for. One whose disk hangs shows that it is alive, and all upkeep of this node would wait for it.
const ANSWER_MS_MAX: u64 = 30_000;
/// How often a peer that is over capacity is asked again: for five seconds. One that still owes an answer to an earlier pull refuses for as
/// long as its disk hangs.
const ASKED_AGAIN_MAX: usize = 10;

enum Event {
    Answered(u64, PullResponse<Bytes>),
    Found(Bytes, Option<Version>),
    Applied(Bytes, Result<(), Refusal>),
    Gone(Bytes),
    /// The peer cannot be asked.
    Lost(String),
}

/// Pulls what this node lacks, as long as the event loop runs.
pub(super) async fn exchange<S: Store>(replica: Rc<OwnReplica<S>>) {
    let cluster = &replica.cluster;
    let stability = Arc::clone(cluster.stability());
    let mut ticks = tokio::time::interval(Duration::from_millis(LOOK_EVERY_MS));
    let mut filled_at_ms = None;
    let mut misses = OwnMisses::default();
    // What the version clock showed at the last look.
    let mut looked_at = 0;
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
        // What is older has arrived everywhere, and is not taken any more: there is nothing left to keep out.
        let mut void_before = stability.droppable_before();
        if has(Bug::FenceTimesOut) {
            void_before = void_before.max(std::mem::replace(&mut looked_at, cluster.versions.last()));
        }
        cluster.fences().void_before(void_before);
        if let Some(expired_before_ms) = cluster.versions.expired_before_ms() {
            replica.shared.drop_values_expired_before_ms(expired_before_ms);
        }
        let now_ms = replica.core.now_ms();
        let may_fill = filled_at_ms.is_none_or(|then_ms| now_ms >= then_ms + FILL_EVERY_MS);
        if may_fill && stability.tree.is_to_be_filled() {
            filled_at_ms = Some(now_ms);
            replica.shared.tell_again();
        }
        let requested = cluster.exchange.requested.load(Ordering::Acquire);
        if requested > cluster.exchange.completed.load(Ordering::Acquire) {
            repair(&replica, &stability).await;
            cluster.exchange.completed.store(requested, Ordering::Release);
        }
        copy_missed(&replica, &stability, &mut misses).await;
        let Some(pass) = stability.pass() else { continue };
        make(&replica, &stability, &pass).await;
    }
}

/// Pulls everything from every peer, on demand.
async fn repair<S: Store>(replica: &Rc<OwnReplica<S>>, stability: &Arc<Stability>) {
    let errors = pull_from_all(replica, stability).await;
    *replica.cluster.exchange.error.lock() = (!errors.is_empty()).then(|| errors.join("; "));
}

/// Pulls what this node took and could not store itself, if it is time for that.
async fn copy_missed<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    stability: &Arc<Stability>,
    misses: &mut OwnMisses,
) {
    let Some(missed) = misses.due(replica, stability) else { return };
    let errors = pull_from_all(replica, stability).await;
    if errors.is_empty() {
        misses.copied(missed);
    } else {
        replica.cluster.exchange.failures.fetch_add(1, Ordering::Relaxed);
        tracing::debug!("what this node could not store was not copied: {}", errors.join("; "));
    }
}

/// Pulls everything from every peer. Answers what went wrong.
async fn pull_from_all<S: Store>(replica: &Rc<OwnReplica<S>>, stability: &Arc<Stability>) -> Vec<String> {
    let cluster = &replica.cluster;
    let mut errors = Vec::new();
    for peer in cluster.peers.iter().filter(|peer| peer.id != cluster.own) {
        let puller = Puller { replica, stability, link: replica.peers.link(peer.id), leaves_promised: false };
        if let Err(why) = puller.pull(peer.id, u64::MAX, stability.lists_all()).await {
            errors.push(format!("from {}: {why}", peer.url));
        }
    }
    errors
}

async fn make<S: Store>(replica: &Rc<OwnReplica<S>>, stability: &Arc<Stability>, pass: &SyncRound) {
    let view = &replica.cluster.exchange;
    view.peers_left.store(pass.peers.len() as u64, Ordering::Relaxed);
    // One whose answers count pulls everything only after a change of the list of nodes.
    let leaves_promised = pass.before == u64::MAX && stability.has_all();
    let mut has_failed = false;
    for &peer in &pass.peers {
        let link = replica.peers.link(peer);
        let puller = Puller { replica, stability, link, leaves_promised };
        let pulled = match puller.pull(peer, pass.before, pass.lists_all).await {
            // What others are told of this pass is durable soon. All that it rests on has to be so before, also what came as a hint: a
            // node that lost a deletion, and says that it has it, brings back what was deleted.
            Ok(()) => replica.store.sync().await.map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        match pulled {
            Ok(()) => {
                stability.pulled(pass.number, peer);
                view.peers_left.fetch_sub(1, Ordering::Relaxed);
            }
            Err(why) => {
                tracing::debug!("anti-entropy with {} broke off: {why}", link.url());
                view.failures.fetch_add(1, Ordering::Relaxed);
                has_failed = true;
                // Another time, as of another moment. What lists have told of others stays told.
                if !pass.lists_all {
                    stability.abandon(pass.number);
                } else if pass.prunes {
                    // Those behind it say what of its cells was deleted: not before it has told of them.
                    return;
                }
                // What it could not give, others may have: then it is not asked for that again.
            }
        }
    }
    if !has_failed {
        view.passes.fetch_add(1, Ordering::Relaxed);
        view.unreadable.lock().clear();
    }
}

/// One pull from one peer.
struct Puller<'p, S: Store> {
    replica: &'p Rc<OwnReplica<S>>,
    stability: &'p Arc<Stability>,
    link: &'p Rc<PeerLink>,
    /// Whether a cell may stay away that a promise keeps out. Who is new in the list of nodes waits for this pull, and the promise of a
    /// coordinator that is gone may be ended only once the answers of those count. The next round brings the cell.
    leaves_promised: bool,
}

impl<S: Store> Puller<'_, S> {
    async fn pull(self, peer: NodeId, before: u64, lists_all: bool) -> Result<(), String> {
        let (send, mut events) = mpsc::unbounded_channel();
        let mut steps = VecDeque::new();
        let too_late = || "the tree is not whole".to_owned();
        let begin = if lists_all { SyncSession::of_everything } else { SyncSession::new };
        let pull = self.stability.tree.with(|tree| begin(peer, before, tree, |step| steps.push_back(step)));
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
                        self.stability.tree.with(|tree| pull.compare(tree, step)).ok_or_else(too_late)?;
                    }
                    PullStep::Look(key) => self.look(&send, key),
                    PullStep::Apply(key, cell) => self.apply(&send, peer, (key, cell)).await,
                    PullStep::Prune(of) => {
                        let pruned = prune(self.replica, peer, &of).await;
                        pull.pruned(pruned, |step| steps.push_back(step));
                    }
                    PullStep::Done => return Ok(()),
                    PullStep::Failed(failure) => {
                        if let PullFailure::NotToldApart { at } = failure {
                            self.stability.tree.refill_from(at);
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
                    .tree
                    .with(|tree| pull.answered(number, response, tree, &mut step))
                    .ok_or_else(too_late)?,
                Event::Found(key, version) => pull.found(&key, version, step),
                Event::Applied(key, result) => pull.applied(&key, result, step),
                Event::Gone(key) => pull.gone(&key, step),
                Event::Lost(why) => return Err(why),
            }
            self.note(pull.progress(), &mut applied_before);
        }
    }

    fn note(&self, progress: PullProgress, applied_before: &mut u64) {
        let view = &self.replica.cluster.exchange;
        view.differing_partitions.store(progress.partitions as u64, Ordering::Relaxed);
        view.compared_keys.store(progress.compared, Ordering::Relaxed);
        view.copied_cells.store(progress.applied, Ordering::Relaxed);
        view.copied_cells_total.fetch_add(progress.applied - *applied_before, Ordering::Relaxed);
        *applied_before = progress.applied;
    }

    /// Asks the peer; again and again for some seconds if it is over capacity. Otherwise one full moment would have everything listed anew.
    fn ask(&self, send: &mpsc::UnboundedSender<Event>, number: u64, asked: PullRequest<Bytes>) {
        let request = match asked {
            PullRequest::Groups(slice) => Request::Groups(slice),
            PullRequest::Leaves { slice, groups } => Request::Leaves { slice, groups },
            PullRequest::List { slice, partitions, after } => {
                Request::List { slice, partitions, after: after.unwrap_or_default() }
            }
            PullRequest::Cell(key) => Request::Read { key, digest: false, origin: Origin::Exchange },
        };
        let (link, send) = (Rc::clone(self.link), send.clone());
        tokio::task::spawn_local(async move {
            let mut asked_again = 0;
            let answered = loop {
                let asked = tokio::time::timeout(Duration::from_millis(ANSWER_MS_MAX), link.ask(&request));
                match asked.await {
                    Ok(answer) if is_for_lack_of_room(&answer) && asked_again < ASKED_AGAIN_MAX => {
                        asked_again += 1;
                        tokio::time::sleep(Duration::from_millis(ASK_AGAIN_AFTER_MS)).await;
                    }
                    answered => break answered,
                }
                if send.is_closed() {
                    return;
                }
            };
            let event = match answered.map(|answer| answer.map(response)) {
                Ok(Ok(Some(response))) => Event::Answered(number, response),
                Ok(Ok(None)) => Event::Lost("an answer to something else".to_owned()),
                Ok(Err(error)) => Event::Lost(error.to_string()),
                Err(_) => Event::Lost(format!("no answer within {ANSWER_MS_MAX} ms")),
            };
            // If the pull has ended, nothing waits.
            let _ = send.send(event);
        });
    }

    fn look(&self, send: &mpsc::UnboundedSender<Event>, key: Bytes) {
        let (own, send) = (Rc::clone(self.replica), send.clone());
        tokio::task::spawn_local(async move {
            let found = loop {
                match own.store.get_cell(&key).wait().await {
                    Err(StoreError::OverCapacity { .. }) => replica::wait_for_room().await,
                    found => break found,
                }
            };
            let _ = send.send(match found {
                Ok(found) => Event::Found(key, found.map(|cell| cell.stamp.version)),
                Err(error) => Event::Lost(error.to_string()),
            });
        });
    }

    async fn apply(&self, send: &mpsc::UnboundedSender<Event>, peer: NodeId, (key, cell): (Bytes, PeerCell)) {
        let cluster = &self.replica.cluster;
        cluster.pace.draw_cell(cell.inline_bytes()).await;
        let turn = cluster.copy_turns.pull(cell.value.as_ref()).await;
        let (replica, send, leaves_promised) = (Rc::clone(self.replica), send.clone(), self.leaves_promised);
        tokio::task::spawn_local(async move {
            let written = write(&replica, peer, &key, cell, leaves_promised).await;
            drop(turn);
            let _ = send.send(match written {
                Ok(()) => Event::Applied(key, Ok(())),
                Err(NotTaken::Here(refusal)) => Event::Applied(key, Err(refusal)),
                Err(NotTaken::Gone) => Event::Gone(key),
                Err(NotTaken::BySource(error)) => {
                    if let StoreError::Unreadable { reason } = &error {
                        replica.cluster.exchange.warn_of_unreadable(reason);
                    }
                    Event::Lost(error.to_string())
                }
            });
        });
    }
}

async fn write<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    peer: NodeId,
    key: &Bytes,
    cell: PeerCell,
    leaves_promised: bool,
) -> Result<(), NotTaken> {
    let Cell { stamp, value } = cell;
    let said = match value {
        Some(Value::Large(bytes)) => coordinate::take_large(replica, peer, key, (stamp, bytes)).await?,
        Some(Value::Inline(value)) => replica::apply_pulled(replica, (key, stamp, Some(&value[..]))).await?,
        None => replica::apply_pulled(replica, (key, stamp, None)).await?,
    };
    match said {
        // That something newer is here is as good.
        WriteAnswer::Applied | WriteAnswer::Superseded { .. } => Ok(()),
        WriteAnswer::Fenced { fence } => {
            let replaced = fenced::replace(replica, key, (stamp.version, stamp.copies), fence).await;
            if leaves_promised { Ok(()) } else { Ok(replaced?) }
        }
    }
}

/// Whether a peer answers that it is over capacity, or cannot be asked because more waits for it than may.
const fn is_for_lack_of_room(answer: &Result<Answer, PeerError>) -> bool {
    matches!(answer, Ok(Answer::Refused(Refusal::OverCapacity)) | Err(PeerError::Full { .. }))
}

/// The answer of a peer, in the words of the machine; `None` if it is none to a pull.
fn response(answer: Answer) -> Option<PullResponse<Bytes>> {
    Some(match answer {
        Answer::Read(answer) => PullResponse::Cell(match answer.cell {
            Some(SentCell::Whole(cell)) => Some(cell),
            // The whole cell was asked for.
            Some(SentCell::Digest(_)) => return None,
            None => None,
        }),
        Answer::Groups { dropped_before, hashes } => PullResponse::Groups { dropped_before, hashes },
        Answer::Leaves(leaves) => PullResponse::Leaves(leaves),
        Answer::List { entries, next } => PullResponse::List { entries, next },
        Answer::Refused(refusal) => PullResponse::Refused(refusal),
        _ => return None,
    })
}
