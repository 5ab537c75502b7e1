//! One pull from one peer, driven by [`ladoga_cluster::SyncSession`].

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{
    NodeId, Origin, PullFailure, PullProgress, PullRequest, PullResponse, PullStep, Refusal, SentCell,
    SyncSession, WriteAnswer,
};
use ladoga_model::{Cell, Quote, Value, Version};
use tokio::sync::mpsc;

use super::fenced::{self, Patience};
use super::prune::prune;
use crate::coordinate::{self, ASK_AGAIN_AFTER_MS, NotTaken};
use crate::link::{PeerError, PeerLink};
use crate::own::OwnReplica;
use crate::own::replica;
use crate::stability::Stability;
use crate::wire::{Answer, PeerCell, Request};
use ladoga_local::store::{Store, StoreError};

/// How long an answer of a peer is waited for. One whose disk hangs shows that it is alive, and all upkeep of this node would wait for it.
const ANSWER_MS_MAX: u64 = 30_000;
/// How often a peer that is over capacity is asked again: for five seconds. One that still owes an answer to an earlier pull refuses for as
/// long as its disk hangs.
const ASKED_AGAIN_MAX: usize = 10;

type Step = PullStep<Bytes>;

enum Event {
    Answered(u64, PullResponse<Bytes>),
    Found(Bytes, Option<Version>),
    Applied(Bytes, Result<(), Refusal>),
    Gone(Bytes),
    /// The cell of this key is not to be had now, or not to be written, and why.
    LeftOut(Bytes, String),
    /// The peer cannot be asked.
    Lost(String),
}

/// Why a pull did not bring everything.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(super) struct NotPulled {
    why: String,
    /// Whether it brought all but cells that were left out. (Otherwise it broke off.)
    pub(super) is_incomplete: bool,
    /// What it can go on with, if it broke off.
    pub(super) rest: Option<Box<SyncSession<Bytes>>>,
}

impl From<String> for NotPulled {
    fn from(why: String) -> NotPulled {
        NotPulled { why, is_incomplete: false, rest: None }
    }
}

/// One pull from one peer.
pub(super) struct Puller<'p, S: Store> {
    pub(super) replica: &'p Rc<OwnReplica<S>>,
    pub(super) stability: &'p Arc<Stability>,
    pub(super) link: &'p Rc<PeerLink>,
    /// Whether a cell may stay away that a promise keeps out. Who is new in the list of nodes waits for this pull, and the promise of a
    /// coordinator that is gone may be ended only once the answers of those count. The next round brings the cell.
    pub(super) leaves_promised: bool,
}

impl<S: Store> Puller<'_, S> {
    /// Pulls all that is before this timestamp.
    pub(super) async fn pull(self, peer: NodeId, before: u64, lists_all: bool) -> Result<(), NotPulled> {
        let mut steps = VecDeque::new();
        let begin = if lists_all { SyncSession::of_everything } else { SyncSession::new };
        let pull = self.stability.tree.with(|tree| begin(peer, before, tree, |step| steps.push_back(step)));
        let (prune_before, refused_before) =
            (self.stability.prune_before(peer), self.stability.synced_before());
        let pull = pull.ok_or_else(too_late)?.pruning(prune_before).refusing_before(refused_before);
        self.go_on(pull, steps).await
    }

    /// Goes on with one that broke off.
    pub(super) async fn resume(self, mut rest: SyncSession<Bytes>) -> Result<(), NotPulled> {
        let mut steps = VecDeque::new();
        rest.resume(|step| steps.push_back(step));
        self.go_on(rest, steps).await
    }

    async fn go_on(self, mut pull: SyncSession<Bytes>, steps: VecDeque<Step>) -> Result<(), NotPulled> {
        let end = self.drive(&mut pull, steps).await;
        let rest = pull.can_resume().then(|| Box::new(pull));
        end.map_err(|why| NotPulled { rest, ..why })
    }

    async fn drive(&self, pull: &mut SyncSession<Bytes>, mut steps: VecDeque<Step>) -> Result<(), NotPulled> {
        let (send, mut events) = mpsc::unbounded_channel();
        let (peer, mut applied_before, mut first_left_out) = (pull.peer(), pull.progress().applied, None);
        // With what is kept out of what this deletes.
        let mut patience = Patience::of(self.replica);
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
                        // It may have another disk since it was asked: it has nothing then, and nothing of that was deleted.
                        if self.stability.prune_before(peer) < of.before {
                            return Err("the pass that it was of is over".to_owned().into());
                        }
                        let pruned = prune(self.replica, peer, &of, &mut patience).await;
                        if let Ok([key, ..]) = pruned.as_deref() {
                            first_left_out.get_or_insert_with(|| left_out(key, &fenced::UNDER_WAY));
                        }
                        let pruned = pruned.map(|promised| promised.len() as u64);
                        pull.pruned(pruned, |step| steps.push_back(step));
                    }
                    PullStep::Done => return Ok(()),
                    PullStep::Failed(failure) => return Err(self.failed(failure, first_left_out)),
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
                Event::LeftOut(key, why) => {
                    first_left_out.get_or_insert(why);
                    pull.left_out(&key, step);
                }
                Event::Lost(why) => return Err(why.into()),
            }
            self.note(pull.progress(), &mut applied_before);
        }
    }

    /// What comes of a failure, and its text.
    fn failed(&self, failure: PullFailure, first_left_out: Option<String>) -> NotPulled {
        let is_incomplete = matches!(failure, PullFailure::Incomplete { .. });
        match (failure, &first_left_out) {
            (PullFailure::NotToldApart { at }, _) => self.stability.tree.refill_from(at),
            (PullFailure::Refused(Refusal::Unreadable), _) => {
                let why = format!("what is in a list of {}: {}", self.link.url(), Refusal::Unreadable);
                self.replica.cluster.exchange.warn_of_unreadable(&why);
            }
            _ => {}
        }
        let first = first_left_out.filter(|_| is_incomplete);
        let first = first.map(|why| format!(" (the first, {why})")).unwrap_or_default();
        NotPulled { why: format!("{failure}{first}"), is_incomplete, rest: None }
    }

    fn note(&self, progress: PullProgress, applied_before: &mut u64) {
        let view = &self.replica.cluster.exchange;
        view.differing_partitions.store(progress.partitions as u64, Ordering::Relaxed);
        view.compared_keys.store(progress.compared, Ordering::Relaxed);
        view.copied_cells.store(progress.applied, Ordering::Relaxed);
        view.copied_cells_total.fetch_add(progress.applied - *applied_before, Ordering::Relaxed);
        *applied_before = progress.applied;
    }

    /// Asks the peer; again and again for some seconds if it is over capacity. Otherwise one full moment would end the pull.
    fn ask(&self, send: &mpsc::UnboundedSender<Event>, number: u64, asked: PullRequest<Bytes>) {
        let request = match asked {
            PullRequest::Groups(slice) => Request::Groups(slice),
            PullRequest::Leaves { slice, groups } => Request::Leaves { slice, groups },
            PullRequest::List { slice, partitions, after } => {
                Request::List { slice, partitions, after: after.unwrap_or_default() }
            }
            PullRequest::Cell(key) => Request::Read { key, digest: false, origin: Origin::Exchange },
        };
        let (replica, link, send) = (Rc::clone(self.replica), Rc::clone(self.link), send.clone());
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
            let event = match (answered.map(|answer| answer.map(response)), request) {
                (Ok(Ok(Some(PullResponse::Refused(Refusal::Unreadable)))), Request::Read { key, .. }) => {
                    unreadable(&replica, key, &format!("{}: {}", link.url(), Refusal::Unreadable))
                }
                (Ok(Ok(Some(response))), _) => Event::Answered(number, response),
                (Ok(Ok(None)), _) => Event::Lost("an answer to something else".to_owned()),
                (Ok(Err(error)), _) => Event::Lost(error.to_string()),
                (Err(_), _) => Event::Lost(format!("no answer within {ANSWER_MS_MAX} ms")),
            };
            // If the pull has ended, nothing waits.
            let _ = send.send(event);
        });
    }

    fn look(&self, send: &mpsc::UnboundedSender<Event>, key: Bytes) {
        let (own, send) = (Rc::clone(self.replica), send.clone());
        tokio::task::spawn_local(async move {
            let _ = send.send(match replica::version_here(&own, &key).await {
                Ok(found) => Event::Found(key, found),
                Err(StoreError::Unreadable { reason }) => {
                    unreadable(&own, key, &format!("this node: {reason}"))
                }
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
            let mut written = write(&replica, peer, &key, &cell).await;
            drop(turn);
            if let Ok(WriteAnswer::Fenced { fence }) = written {
                if leaves_promised {
                    fenced::take_over(&replica, &key, cell.stamp.copies, fence).await;
                    written = Ok(WriteAnswer::Applied);
                } else {
                    written = replace(&replica, peer, (&key, &cell), fence).await;
                }
            }
            let _ = send.send(match written {
                // That something newer is here is as good.
                Ok(WriteAnswer::Applied | WriteAnswer::Superseded { .. }) => Event::Applied(key, Ok(())),
                Ok(WriteAnswer::Fenced { .. }) => {
                    let why = left_out(&key, &fenced::UNDER_WAY);
                    Event::LeftOut(key, why)
                }
                Err(NotTaken::Here(refusal)) => Event::Applied(key, Err(refusal)),
                Err(NotTaken::Gone) => Event::Gone(key),
                Err(NotTaken::BySource(StoreError::Unreadable { reason })) => {
                    unreadable(&replica, key, &format!("{reason}, and no other node gave it"))
                }
                // It would be the same with the next one, and each is waited for.
                Err(NotTaken::BySource(error)) => Event::Lost(error.to_string()),
            });
        });
    }
}

fn too_late() -> String {
    "the tree is not whole".to_owned()
}

/// A cell cannot be read where it is, for this reason.
fn unreadable<S: Store>(replica: &OwnReplica<S>, key: Bytes, why: &str) -> Event {
    let why = left_out(&key, &why);
    replica.cluster.exchange.warn_of_unreadable(&why);
    Event::LeftOut(key, why)
}

fn left_out(key: &[u8], why: &dyn std::fmt::Display) -> String {
    format!("{}: {why}", Quote::of(key))
}

/// A promise keeps a cell out, which is tried again: in a turn of its own, as nobody is to wait for a turn meanwhile.
async fn replace<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    peer: NodeId,
    (key, cell): (&Bytes, &PeerCell),
    fence: Version,
) -> Result<WriteAnswer, NotTaken> {
    let in_turn = async || {
        let _turn = replica.cluster.copy_turns.pull(cell.value.as_ref()).await;
        write(replica, peer, key, cell).await
    };
    let mut patience = Patience::of(replica);
    let is_here = fenced::replace(replica, (key, cell.stamp), fence, &mut patience, in_turn).await?;
    Ok(if is_here { WriteAnswer::Applied } else { WriteAnswer::Fenced { fence } })
}

async fn write<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    peer: NodeId,
    key: &Bytes,
    Cell { stamp, value }: &PeerCell,
) -> Result<WriteAnswer, NotTaken> {
    let stamp = *stamp;
    Ok(match value {
        Some(Value::Large(bytes)) => coordinate::take_large(replica, peer, key, (stamp, *bytes)).await?,
        Some(Value::Inline(value)) => replica::apply_pulled(replica, (key, stamp, Some(&value[..]))).await?,
        None => replica::apply_pulled(replica, (key, stamp, None)).await?,
    })
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
