use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{
    Failure, Origin, QuorumError, RESTAMPS_MAX, Refusal, WriteAnswer, WriteCore, WriteStep,
};
use ladoga_model::{Cell, Replicas, Value, Version};
use ladoga_service::Error;

use super::failures::{failure, too_few, unexpected};
use super::plan::Plan;
use super::standing::Standing;
use super::starting::{IS_STARTING, Starting, until_asked_again};
use crate::link::{Expires, PeerError, Place, Waiter};
use crate::planted::{Bug, has, note_given_up, note_version};
use crate::wire::{Answer, Request};
use ladoga_local::store::Store;
use ladoga_runtime::OneShot;

/// When replicas that promised to take nothing older than a conditional write are asked again: about as long as that takes.
pub(super) const FENCED_WAIT_MS: u64 = 10;
/// How long they are waited for. By then the coordinator of the conditional write is gone, most likely, and nobody else would end
/// its promises: what waits takes its place.
pub(super) const FENCED_MS_MAX: u64 = 300;

/// What became of a write.
pub(super) enum PlainWrite {
    /// As many replicas as it asked for have it, under this version.
    Acknowledged(Version),
    /// A promise that does not end is in its way.
    Fenced {
        /// The version under which a replica may have it.
        earlier: Option<Version>,
    },
}

/// Writes a cell to the nodes of its key. `None` deletes.
pub(super) async fn write_unless_fenced<S: Store>(
    plan: &Plan<S>,
    value: Option<&Bytes>,
) -> Result<PlainWrite, Error> {
    let mut core = first_attempt(plan.replicas);
    // All attempts together have the time of the request.
    let (until_ms, mut rest) = (plan.until_ms(), None);
    for attempt in 0..RESTAMPS_MAX {
        let stamp = plan
            .stamp()
            .await
            .map_err(|error| if attempt == 0 { error } else { unless_shown(plan, error) })?;
        let cell = Cell { stamp, value: value.cloned().map(Value::Inline) };
        let writing = Writing::new(rest.as_ref().unwrap_or(plan), core.clone(), cell);
        writing.begin();
        match writing.decision.take().await {
            Outcome::Acknowledged => {
                note_version(Some(stamp.version));
                return Ok(PlainWrite::Acknowledged(stamp.version));
            }
            Outcome::Failed(error) => return Err(too_few(plan, &error, true)),
            Outcome::Stale(newest) => plan.observe(newest).map_err(|error| unless_shown(plan, error))?,
            Outcome::Fenced { fence, is_nowhere } if plan.replicas.is_quorum() => {
                plan.observe(fence).map_err(|error| if is_nowhere { error } else { Error::Undecided })?;
                return Ok(PlainWrite::Fenced { earlier: (!is_nowhere).then_some(stamp.version) });
            }
            // Nobody was promised that it takes effect once, so a newer version does.
            Outcome::Fenced { fence, .. } => {
                plan.observe(fence).map_err(|error| unless_shown(plan, error))?;
            }
        }
        if plan.replicas.is_quorum() {
            note_given_up(stamp.version);
            core = WriteCore::after_newest(plan.replicas);
        }
        rest = plan.rest(until_ms);
        if rest.is_none() {
            break;
        }
    }
    Err(unless_shown(plan, Error::Contended("other writes of this key were newer each time")))
}

/// What a client is told instead of an error that says that nothing happened, once an attempt was made. Below a quorum, whoever had
/// nothing newer has taken that one, and may have shown it.
fn unless_shown<S: Store>(plan: &Plan<S>, error: Error) -> Error {
    if plan.replicas.is_quorum() { error } else { Error::Undecided }
}

fn first_attempt(replicas: Replicas) -> WriteCore {
    if has(Bug::RestampAfterExposure) { WriteCore::unpromised(replicas) } else { WriteCore::new(replicas) }
}

impl<S: Store> Plan<S> {
    /// Observes a version, so that the next one is after it.
    pub(super) fn observe(&self, newest: Version) -> Result<(), Error> {
        self.cluster().versions.observe(newest.timestamp).map_err(|error| {
            self.replica.core.metrics.clock_ahead();
            Error::ClocksDiffer(error)
        })
    }
}

pub(super) enum Outcome {
    Acknowledged,
    Failed(QuorumError),
    /// Something newer is in the way, and no client has seen the write.
    Stale(Version),
    /// A promise that is newer has been in the way for too long; and whether it is known that nobody has the write.
    Fenced {
        fence: Version,
        is_nowhere: bool,
    },
}

/// A cell that is written: the replicas have got a large value before.
pub(super) type WrittenCell = Cell<Bytes, ()>;

/// A write under way. It lives until every replica has answered, or was waited for long enough.
pub(super) struct Writing<S: Store> {
    plan: Plan<S>,
    cell: WrittenCell,
    state: RefCell<WritingState>,
    pub(super) decision: OneShot<Outcome>,
    starting: Starting,
    standing: Standing,
    _expires: Place,
}

struct WritingState {
    core: WriteCore,
    /// Replicas that were asked a second time, because a connection broke.
    asked_again: u64,
    /// Since when a promise is in the way.
    fenced_since_ms: Option<u64>,
}

impl<S: Store> Writing<S> {
    pub(super) fn new(plan: &Plan<S>, core: WriteCore, cell: WrittenCell) -> Rc<Writing<S>> {
        let state = RefCell::new(WritingState { core, asked_again: 0, fenced_since_ms: None });
        Rc::new_cyclic(|writing: &Weak<Writing<S>>| Writing {
            plan: plan.clone(),
            cell,
            state,
            decision: OneShot::default(),
            starting: Starting::default(),
            standing: Standing::of(plan, plan.cluster().stability().has_all()),
            _expires: plan.expire_later(writing.clone()),
        })
    }

    /// Asks all replicas to take a value in memory, or a deletion.
    fn begin(self: &Rc<Self>) {
        let request = self.request(false);
        for (place, &node) in self.plan.nodes().iter().enumerate() {
            if node != self.plan.cluster().own {
                self.send(&request, place);
            }
        }
        if let Some(place) = self.plan.own_place() {
            self.apply(place);
        }
    }

    /// Asks this node, without a network.
    fn apply(self: &Rc<Self>, place: usize) {
        let writing = Rc::clone(self);
        let value = self.inline().map(|value| &value[..]);
        self.plan.apply((self.cell.stamp, value), Origin::Client, move |said| {
            writing.replica_answered(place, said);
        });
    }

    /// The value, if it is in memory; none for a deletion.
    fn inline(&self) -> Option<&Bytes> {
        match &self.cell.value {
            Some(Value::Inline(value)) => Some(value),
            Some(Value::Large(())) | None => None,
        }
    }

    fn request(&self, is_again: bool) -> Request {
        let (key, stamp) = (self.plan.key.clone(), self.cell.stamp);
        let (value, origin, durability) = (self.inline().cloned(), Origin::Client, self.plan.durability);
        Request::Write { key, stamp, value, origin, is_again, durability }
    }

    fn send(self: &Rc<Self>, request: &Request, place: usize) {
        let waiter = Rc::clone(self);
        if let Err(error) = self.plan.link(place).send((request, self.plan.trace), waiter, place) {
            self.replica_answered(place, Err(failure(&error)));
        }
    }

    /// A replica's answer to the write; or it is known that there will be none.
    pub(super) fn replica_answered(self: &Rc<Self>, place: usize, answer: Result<WriteAnswer, Failure>) {
        if let Ok(WriteAnswer::Applied | WriteAnswer::Superseded { .. }) = answer {
            let node = self.plan.node(place);
            self.plan.cluster().stability().acknowledged(node, self.cell.stamp.version.timestamp);
        }
        let is_large = matches!(self.cell.value, Some(Value::Large(())));
        let answer = answer.and_then(|said| match said {
            WriteAnswer::Superseded { .. } if has(Bug::IgnoreNewerVersions) => Ok(WriteAnswer::Applied),
            // Its pieces are gone: it cannot be sent again.
            WriteAnswer::Fenced { .. } if is_large => Err(Failure::Fenced),
            said => Ok(said),
        });
        self.step(|core, step| core.answered(place, answer, step));
    }

    /// Lets the machine take a step, and executes its output.
    fn step(self: &Rc<Self>, act: impl FnOnce(&mut WriteCore, &mut dyn FnMut(WriteStep))) {
        let mut hints = Vec::new();
        let mut take = |step| match step {
            WriteStep::Decided(Ok(())) => {
                let error = self.standing.taken_back(&self.plan);
                self.decision.set(error.map_or(Outcome::Acknowledged, Outcome::Failed));
            }
            WriteStep::Decided(Err(error)) => self.decision.set(Outcome::Failed(error)),
            WriteStep::Stale(newest) => {
                // Who said that it never had it may have been given it since.
                let error = self.standing.taken_back(&self.plan);
                self.decision.set(error.map_or(Outcome::Stale(newest), Outcome::Failed));
            }
            WriteStep::Fenced(fence) => self.ask_fenced_later(fence),
            WriteStep::Hint(place) => hints.push(place),
        };
        let mut state = self.state.borrow_mut();
        act(&mut state.core, &mut take);
        if state.core.is_decided() {
            // Replicas that are starting are waited for no longer: they get hints.
            for place in self.starting.take_all() {
                state.core.answered(place, Err(IS_STARTING), &mut take);
            }
        }
        drop(state);
        for place in hints {
            let value = self.cell.value.as_ref().map(|value| match value {
                Value::Inline(bytes) => Value::Inline(&bytes[..]),
                // The replicas that have it are asked when it is delivered.
                Value::Large(()) => Value::Large(0),
            });
            let cell = Cell { stamp: self.cell.stamp, value };
            self.plan.replica.hint(self.plan.node(place), &self.plan.key, cell);
        }
    }
}

impl<S: Store> Waiter for Writing<S> {
    fn answered(self: Rc<Self>, place: usize, answer: Result<Answer, PeerError>) {
        let answer = match answer {
            Ok(Answer::Refused(Refusal::Starting)) => return self.ask_once_it_has_started(place),
            Ok(answer) => answer.into_write_answer().map_err(|other| unexpected(Ok(other))),
            Err(error) if error.is_of_the_connection() && self.may_ask_again(place) => {
                return self.ask(place);
            }
            Err(error) => Err(failure(&error)),
        };
        self.replica_answered(place, answer);
    }
}

impl<S: Store> Writing<S> {
    /// Asks a replica again. One that broke off before may have it.
    fn ask(self: &Rc<Self>, place: usize) {
        if self.plan.own_place() == Some(place) {
            return self.apply(place);
        }
        let is_again = self.state.borrow().asked_again & (1 << place) != 0;
        self.send(&self.request(is_again), place);
    }

    /// Asks those that promised not to take it once more, a bit later.
    fn ask_fenced_later(self: &Rc<Self>, fence: Version) {
        let writing = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(FENCED_WAIT_MS)).await;
            let Some(writing) = writing.upgrade() else { return };
            if !writing.gives_way(fence) {
                let fenced = writing.state.borrow_mut().core.ask_fenced_again();
                fenced.for_each(|place| writing.ask(place));
            }
        });
    }

    /// Ends it, if a promise has been in the way for so long that whoever was promised it is gone.
    fn gives_way(&self, fence: Version) -> bool {
        let mut state = self.state.borrow_mut();
        let now_ms = self.plan.replica.core.now_ms();
        let since_ms = *state.fenced_since_ms.get_or_insert(now_ms);
        let is_over = now_ms - since_ms >= FENCED_MS_MAX || self.plan.is_of_the_past(fence);
        if !is_over || state.core.is_decided() {
            return false;
        }
        let is_nowhere = state.asked_again == 0 && !state.core.may_be_somewhere();
        state.core.give_up();
        drop(state);
        self.decision.set(Outcome::Fenced { fence, is_nowhere });
        true
    }

    /// Asks a replica that is starting again, for as long as somebody waits for it.
    fn ask_once_it_has_started(self: &Rc<Self>, place: usize) {
        if self.state.borrow().core.is_decided() {
            return self.replica_answered(place, Err(IS_STARTING));
        }
        self.starting.insert(place);
        let replica = Rc::clone(&self.plan.replica);
        let (node, writing) = (self.plan.node(place), Rc::downgrade(self));
        tokio::task::spawn_local(async move {
            let is_asked = until_asked_again(&replica, node).await;
            // If the write is decided, nothing waits.
            let Some(writing) = writing.upgrade().filter(|writing| writing.starting.remove(place)) else {
                return;
            };
            if is_asked { writing.ask(place) } else { writing.replica_answered(place, Err(IS_STARTING)) }
        });
    }

    /// A write may be asked for twice: the second time changes nothing.
    fn may_ask_again(&self, place: usize) -> bool {
        let mut state = self.state.borrow_mut();
        let bit = 1 << place;
        let may = state.asked_again & bit == 0 && !state.core.is_finished();
        state.asked_again |= bit;
        may
    }
}

impl<S: Store> Expires for Writing<S> {
    fn expire(self: Rc<Self>) {
        self.step(|core, step| {
            let starting = self.starting.take_all();
            starting.for_each(|place| core.answered(place, Err(IS_STARTING), &mut *step));
            core.deadline(step);
        });
    }
}
