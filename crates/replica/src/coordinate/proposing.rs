use std::cell::RefCell;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use ladoga_cluster::{
    AcceptAnswer, Failure, Incarnation, PrepareAnswer, ProposalCore, ProposalError, ProposalStep, Refusal,
    SentCell,
};
use ladoga_model::{Cell, Value, Version};

use super::failures::{failure, unexpected};
use super::fetch::{HeldCell, HeldValue};
use super::plan::Plan;
use super::standing::Standing;
use super::starting::{IS_STARTING, Starting, until_asked_again};
use super::target::Target;
use super::write::WrittenCell;
use crate::link::{Expires, PeerError, Place, Waiter};
use crate::own::promises;
use crate::wire::{Answer, Base, Request};
use ladoga_local::store::Store;
use ladoga_runtime::OneShot;

/// The slots of a proposal: the answers to the ballot by place, and from here on those to its cell.
const ACCEPT_SLOTS: usize = 64;

type Core = ProposalCore<Bytes, HeldValue>;
type Step = ProposalStep<Bytes, HeldValue>;

/// That a majority has promised.
pub(super) struct Promise {
    /// The newest cell of that majority.
    pub(super) newest: Option<HeldCell>,
    /// Whether each of them has it.
    pub(super) is_stable: bool,
}

/// What the coordinator of a ballot waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProposalPhase {
    /// The promises of a majority.
    Preparing,
    /// It has to say what follows.
    Promised,
    /// That a majority has the cell.
    Accepting,
    /// Nothing: it has no use for promises any more.
    Abandoned,
}

/// A proposal under way. It lives until every replica has answered, or was waited for long enough.
pub(super) struct Proposing<S: Store> {
    plan: Plan<S>,
    ballot: Version,
    pub(super) state: RefCell<ProposingState<S>>,
    pub(super) promised: OneShot<Result<Promise, ProposalError>>,
    pub(super) decision: OneShot<Result<(), ProposalError>>,
    starting: Starting,
    standing: Standing,
    /// The incarnations of the replicas when it began, by place: who lost its disk since then has promised nothing.
    met: Vec<Incarnation>,
    _expires: Place,
}

pub(super) struct ProposingState<S: Store> {
    core: Core,
    pub(super) phase: ProposalPhase,
    pub(super) is_late: bool,
    /// Whether what a majority promised does not count any more.
    pub(super) is_taken_back: bool,
    /// The version of the newest cell, which the decision is based on.
    newest: Option<Version>,
    /// What each replica that is asked to accept had, by place.
    bases: Vec<Option<Version>>,
    /// What they are asked to accept.
    pub(super) cell: Option<WrittenCell>,
    /// A large value, at each replica that was not asked to accept it yet.
    pub(super) targets: Vec<Option<Result<Target<S>, Failure>>>,
    /// The slots that were asked a second time, because a connection broke.
    asked_again: u128,
}

impl<S: Store> Proposing<S> {
    pub(super) fn begin(plan: &Plan<S>, ballot: Version) -> Rc<Proposing<S>> {
        let state = RefCell::new(ProposingState {
            core: ProposalCore::new(plan.replicas),
            phase: ProposalPhase::Preparing,
            is_late: false,
            is_taken_back: false,
            newest: None,
            bases: vec![None; plan.replicas.from as usize],
            cell: None,
            targets: Vec::new(),
            asked_again: 0,
        });
        let proposing = Rc::new_cyclic(|proposing: &Weak<Proposing<S>>| Proposing {
            plan: plan.clone(),
            ballot,
            state,
            promised: OneShot::default(),
            decision: OneShot::default(),
            starting: Starting::default(),
            standing: Standing::of(plan, plan.cluster().stability().has_all()),
            met: plan.cluster().stability().incarnations(plan.nodes()),
            _expires: plan.expire_later(proposing.clone()),
        });
        let own_place = plan.own_place();
        (0..plan.nodes().len()).filter(|place| Some(*place) != own_place).for_each(|n| proposing.prepare(n));
        if let Some(place) = own_place {
            proposing.prepare(place);
        }
        proposing
    }

    /// Asks a replica to promise.
    fn prepare(self: &Rc<Self>, place: usize) {
        let (key, ballot, durability) = (self.plan.key.clone(), self.ballot, self.plan.durability);
        if self.plan.own_place() != Some(place) {
            return self.send(&Request::Prepare { key, ballot, durability }, place);
        }
        let promised = promises::prepare(&self.plan.replica, &key, ballot, durability);
        let proposing = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = promised.await.map_err(Failure::Refused);
            proposing.prepared(place, answer.and_then(|answer| with_holder(answer, place)));
        });
    }

    /// Asks a replica to accept the cell.
    fn accept(self: &Rc<Self>, place: usize) {
        let mut state = self.state.borrow_mut();
        let Cell { stamp, value } =
            state.cell.clone().expect("it is given before anybody is asked to accept");
        let base = Base { had: state.bases[place], newest: state.newest, met: self.met.clone() };
        let value = match value {
            Some(Value::Inline(bytes)) => Some(bytes),
            None => None,
            Some(Value::Large(())) => {
                let target = state.targets[place].take();
                drop(state);
                return self.accept_large(place, target, base);
            }
        };
        drop(state);
        let (key, durability) = (self.plan.key.clone(), self.plan.durability);
        if self.plan.own_place() != Some(place) {
            let request = Request::Accept { key, stamp, base, value, durability };
            return self.send(&request, ACCEPT_SLOTS + place);
        }
        let cell = (&key, stamp, value.map(Value::Inline));
        let accepted = promises::accept(&self.plan.replica, cell, base, durability);
        let proposing = Rc::clone(self);
        tokio::task::spawn_local(async move {
            proposing.accepted(place, accepted.await.map_err(Failure::Refused));
        });
    }

    fn accept_large(self: &Rc<Self>, place: usize, target: Option<Result<Target<S>, Failure>>, base: Base) {
        let stamp = self.state.borrow().cell.as_ref().expect("it is given before").stamp;
        match target {
            Some(Ok(target)) => {
                let proposing = Rc::clone(self);
                tokio::task::spawn_local(async move {
                    let answer = target.accept(&proposing.plan, stamp, base).await;
                    proposing.accepted(place, answer);
                });
            }
            Some(Err(Failure::Refused(refusal))) => self.accepted(place, Err(Failure::Refused(refusal))),
            // Its value did not arrive, so it is not asked.
            Some(Err(_)) | None => self.accepted(place, Err(Failure::Unreachable)),
        }
    }

    fn send(self: &Rc<Self>, request: &Request, slot: usize) {
        let waiter = Rc::clone(self);
        if let Err(error) = self.plan.link(slot % ACCEPT_SLOTS).send((request, self.plan.trace), waiter, slot)
        {
            self.failed(slot, failure(&error));
        }
    }

    fn prepared(self: &Rc<Self>, place: usize, answer: Result<PrepareAnswer<Bytes, HeldValue>, Failure>) {
        self.step(|core, step| core.prepared(place, answer, step));
    }

    fn accepted(self: &Rc<Self>, place: usize, answer: Result<AcceptAnswer, Failure>) {
        if answer == Ok(AcceptAnswer::Accepted) {
            let node = self.plan.node(place);
            self.plan.cluster().stability().acknowledged(node, self.ballot.timestamp);
        }
        self.step(|core, step| core.accepted(place, answer, step));
    }

    fn failed(self: &Rc<Self>, slot: usize, failure: Failure) {
        let place = slot % ACCEPT_SLOTS;
        if slot < ACCEPT_SLOTS {
            self.prepared(place, Err(failure));
        } else {
            self.accepted(place, Err(failure));
        }
    }

    /// Lets the machine take a step, and does what it says.
    pub(super) fn step(self: &Rc<Self>, act: impl FnOnce(&mut Core, &mut dyn FnMut(Step))) {
        let mut steps = Vec::new();
        let mut take = |step| steps.push(step);
        let mut state = self.state.borrow_mut();
        act(&mut state.core, &mut take);
        if state.core.is_decided() || state.phase == ProposalPhase::Abandoned {
            // Nobody waits for those that are starting any more.
            for place in self.starting.take_all() {
                state.core.prepared(place, Err(IS_STARTING), &mut take);
                state.core.accepted(place, Err(IS_STARTING), &mut take);
            }
        }
        drop(state);
        for step in steps {
            match step {
                ProposalStep::Promised { newest, is_stable } => self.majority_promised(newest, is_stable),
                ProposalStep::Accept(place, base) => {
                    self.state.borrow_mut().bases[place] = base;
                    self.accept(place);
                }
                ProposalStep::Release(place) => self.release_at(place),
                ProposalStep::Decided(outcome) => self.decided(outcome),
                ProposalStep::Hint(place) => self.hint(place),
            }
        }
    }

    fn majority_promised(self: &Rc<Self>, newest: Option<SentCell<Bytes, HeldValue>>, is_stable: bool) {
        let newest = newest.map(|cell| match cell {
            SentCell::Whole(cell) => cell,
            SentCell::Digest(_) => unreachable!("no answer with a digest comes this far"),
        });
        let is_abandoned = {
            let mut state = self.state.borrow_mut();
            state.newest = newest.as_ref().map(|cell| cell.stamp.version);
            let is_abandoned = state.phase == ProposalPhase::Abandoned;
            if !is_abandoned {
                state.phase = ProposalPhase::Promised;
            }
            is_abandoned
        };
        if is_abandoned {
            return self.step(|core, step| core.release(step));
        }
        self.promised.set(match self.standing.taken_back(&self.plan) {
            None => Ok(Promise { newest, is_stable }),
            Some(error) => {
                self.state.borrow_mut().is_taken_back = true;
                Err(ProposalError::TooFew { error, may_have_happened: false })
            }
        });
    }

    fn decided(&self, outcome: Result<(), ProposalError>) {
        let is_accepting = self.state.borrow().phase == ProposalPhase::Accepting;
        match outcome {
            Err(error) if !is_accepting => self.promised.set(Err(error)),
            Err(error) => self.decision.set(Err(error)),
            Ok(()) => self.decision.set(match self.standing.taken_back(&self.plan) {
                None => Ok(()),
                Some(error) => Err(ProposalError::TooFew { error, may_have_happened: true }),
            }),
        }
    }

    fn release_at(&self, place: usize) {
        let (key, ballot) = (self.plan.key.clone(), self.ballot);
        if self.plan.own_place() == Some(place) {
            promises::release(&self.plan.replica, &key, ballot);
        } else {
            self.plan.link(place).tell(&Request::Release { key, ballot });
        }
    }

    /// Keeps the cell for a replica that has not got it.
    fn hint(&self, place: usize) {
        let state = self.state.borrow();
        let cell = state.cell.as_ref().expect("it was accepted");
        let value = cell.value.as_ref().map(|value| match value {
            Value::Inline(bytes) => Value::Inline(&bytes[..]),
            // The replicas that have it are asked when it is delivered.
            Value::Large(()) => Value::Large(0),
        });
        let cell = Cell { stamp: cell.stamp, value };
        self.plan.replica.hint(self.plan.node(place), &self.plan.key, cell);
    }

    /// Asks a replica that is starting again, for as long as somebody waits for it.
    fn ask_once_it_has_started(self: &Rc<Self>, slot: usize) {
        let (place, is_over) = {
            let state = self.state.borrow();
            (slot % ACCEPT_SLOTS, state.core.is_decided() || state.phase == ProposalPhase::Abandoned)
        };
        if is_over {
            return self.failed(slot, IS_STARTING);
        }
        self.starting.insert(place);
        let replica = Rc::clone(&self.plan.replica);
        let (node, proposing) = (self.plan.node(place), Rc::downgrade(self));
        tokio::task::spawn_local(async move {
            let is_asked = until_asked_again(&replica, node).await;
            // Where it is decided, nobody waits.
            let Some(proposing) = proposing.upgrade().filter(|proposing| proposing.starting.remove(place))
            else {
                return;
            };
            if is_asked { proposing.ask(slot) } else { proposing.failed(slot, IS_STARTING) }
        });
    }

    fn ask(self: &Rc<Self>, slot: usize) {
        let place = slot % ACCEPT_SLOTS;
        if slot < ACCEPT_SLOTS { self.prepare(place) } else { self.accept(place) }
    }

    /// Each may be asked twice: the second time changes nothing.
    fn may_ask_again(&self, slot: usize) -> bool {
        let mut state = self.state.borrow_mut();
        let may = state.asked_again & bit(slot) == 0 && !state.core.is_finished();
        state.asked_again |= bit(slot);
        if may && slot >= ACCEPT_SLOTS {
            state.core.asks_to_accept_again(slot % ACCEPT_SLOTS);
        }
        may
    }
}

const fn bit(slot: usize) -> u128 {
    1 << slot
}

/// What the replica at `place` says to a ballot.
fn with_holder(
    answer: PrepareAnswer<Bytes, u64>,
    place: usize,
) -> Result<PrepareAnswer<Bytes, HeldValue>, Failure> {
    Ok(match answer {
        PrepareAnswer::Promised(None) => PrepareAnswer::Promised(None),
        PrepareAnswer::Promised(Some(SentCell::Whole(cell))) => {
            let cell = cell.map_large(|bytes| HeldValue::new(bytes, place));
            PrepareAnswer::Promised(Some(SentCell::Whole(cell)))
        }
        // A decision cannot be based on that.
        PrepareAnswer::Promised(Some(SentCell::Digest(_))) => return Err(Failure::Broken),
        PrepareAnswer::Outbid(newest) => PrepareAnswer::Outbid(newest),
    })
}

impl<S: Store> Waiter for Proposing<S> {
    fn answered(self: Rc<Self>, slot: usize, answer: Result<Answer, PeerError>) {
        let (place, is_accept) = (slot % ACCEPT_SLOTS, slot >= ACCEPT_SLOTS);
        match answer {
            Ok(Answer::Refused(Refusal::Starting)) => self.ask_once_it_has_started(slot),
            Ok(answer) if is_accept => {
                let answer = answer.into_accept_answer();
                self.accepted(place, answer.map_err(|other| unexpected(Ok(other))));
            }
            Ok(answer) => {
                let answer = answer.into_prepare_answer().map_err(|other| unexpected(Ok(other)));
                self.prepared(place, answer.and_then(|answer| with_holder(answer, place)));
            }
            Err(error) if error.is_of_the_connection() && self.may_ask_again(slot) => self.ask(slot),
            Err(error) => self.failed(slot, failure(&error)),
        }
    }
}

impl<S: Store> Expires for Proposing<S> {
    fn expire(self: Rc<Self>) {
        self.state.borrow_mut().is_late = true;
        self.step(|core, step| {
            for place in self.starting.take_all() {
                core.prepared(place, Err(IS_STARTING), &mut *step);
                core.accepted(place, Err(IS_STARTING), &mut *step);
            }
            core.deadline(step);
        });
    }
}
