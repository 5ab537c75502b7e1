use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use bytes::Bytes;
use ladoga_cluster::{Failure, Origin, QuorumError, WriteCore, WriteStep};
use ladoga_model::{Stamp, Version};

use super::plan::Plan;
use super::trouble::{failure, too_few};
use crate::http::Refusal;
use crate::peers::wire::{Answer, Request};
use crate::peers::{Expires, PeerError, Waiter, replica};
use crate::store::{Cell, CellValue, LocalStore, Store};

/// How often a write takes a newer version because the one that it had was not the newest. Each time it has learned
/// of the newest, so more than once takes another writer of the same key, and as many in a row as this.
const RESTAMPS_MAX: usize = 8;

/// Writes a cell to the nodes of its key. `None` deletes.
pub(crate) async fn write<S: Store>(plan: Plan<S>, value: Option<Bytes>) -> Result<(), Refusal> {
    for _ in 0..RESTAMPS_MAX {
        let stamp = plan.stamp()?;
        let writing = Writing::new(&plan, stamp, Payload::Whole(value.clone()));
        writing.begin();
        match writing.until_decided().await {
            Decision::Acknowledged => return Ok(()),
            Decision::Failed(error) => return Err(too_few(&plan, &error, true)),
            Decision::Stale(newest) => plan.observe(newest)?,
        }
    }
    Err(Refusal::over_capacity("other writes of this key were newer each time"))
}

impl<S: Store> Plan<S> {
    /// Takes note of a version, so that the next one is after it.
    pub(super) fn observe(&self, newest: Version) -> Result<(), Refusal> {
        let wall_ms = self.event_loop.core.clock.wall_ms();
        let ahead_ms_max = self.cluster.limits.clock_ahead_ms_max;
        let observed = self.event_loop.node.versions.observe(newest.timestamp, wall_ms, ahead_ms_max);
        observed.map_err(|error| {
            self.event_loop.core.metrics.clock_ahead();
            Refusal::unavailable(format_args!("the clocks of the nodes differ too much: {error}"))
        })
    }
}

pub(super) enum Decision {
    Acknowledged,
    Failed(QuorumError),
    /// A replica that acknowledged had something newer.
    Stale(Version),
}

/// What is written.
pub(crate) enum Payload {
    /// A value, or a deletion.
    Whole(Option<Bytes>),
    /// A value that does not fit into memory, which the nodes have got before.
    Large,
}

/// A write under way. It lives until every replica has answered, or was waited for long enough.
pub(super) struct Writing<S: Store> {
    plan: Plan<S>,
    stamp: Stamp,
    payload: Payload,
    state: RefCell<State>,
}

struct State {
    core: WriteCore,
    decision: Option<Decision>,
    newest: Option<Version>,
    /// Replicas that were asked a second time, because a connection broke.
    asked_again: u64,
    waker: Option<Waker>,
}

impl<S: Store> Writing<S> {
    pub(super) fn new(plan: &Plan<S>, stamp: Stamp, payload: Payload) -> Rc<Writing<S>> {
        let state = State {
            core: WriteCore::new(plan.replicas),
            decision: None,
            newest: None,
            asked_again: 0,
            waker: None,
        };
        let writing = Rc::new(Writing { plan: plan.clone(), stamp, payload, state: RefCell::new(state) });
        let expires: Weak<Writing<S>> = Rc::downgrade(&writing);
        plan.peers.expire_later(expires);
        writing
    }

    /// Asks all replicas.
    fn begin(self: &Rc<Self>) {
        let Payload::Whole(value) = &self.payload else { return };
        let request = self.request(value.clone());
        for (place, &node) in self.plan.nodes().iter().enumerate() {
            if node != self.plan.cluster.own {
                self.send(&request, place);
            }
        }
        if let Some(place) = self.plan.own_place() {
            self.apply(place, value.as_deref());
        }
    }

    fn request(&self, value: Option<Bytes>) -> Request {
        Request::Write { key: self.plan.key.clone(), stamp: self.stamp, value, origin: Origin::Client }
    }

    fn send(self: &Rc<Self>, request: &Request, place: usize) {
        let waiter = Rc::clone(self);
        if let Err(error) = self.plan.link(place).send(request, waiter, place) {
            self.settled(place, Err(failure(&error)));
        }
    }

    /// Asks this node, without a network.
    fn apply(self: &Rc<Self>, place: usize, value: Option<&[u8]>) {
        let Writing { plan, stamp, .. } = &**self;
        let bytes = value.map(|value| value.len() as u64);
        let admitted = replica::admit(&plan.event_loop, &*plan.store, *stamp, bytes, Origin::Client);
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return self.settled(place, Err(Failure::Refused(refusal))),
        };
        let content = value.map_or(CellValue::Tombstone, CellValue::Bytes);
        let cell = Cell { key: &plan.key, stamp: *stamp, value: content };
        let applied = plan.store.apply([cell]);
        let writing = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let applied = applied.await.map_err(|error| Failure::Refused(replica::refusal(&error)));
            drop(admitted);
            writing.settled(place, applied);
        });
    }

    /// A replica has it, or it is known that it will not.
    pub(super) fn settled(&self, place: usize, answer: Result<(), Failure>) {
        self.step(|core, step| core.answered(place, answer, step));
    }

    /// Lets the machine take a step, and does what it says.
    fn step(&self, act: impl FnOnce(&mut WriteCore, &mut dyn FnMut(WriteStep))) {
        let mut hints = Vec::new();
        let mut state = self.state.borrow_mut();
        let State { core, decision, newest, waker, .. } = &mut *state;
        act(core, &mut |step| match step {
            WriteStep::Decided(Ok(())) => {
                *decision = Some(newest.map_or(Decision::Acknowledged, Decision::Stale));
            }
            WriteStep::Decided(Err(error)) => *decision = Some(Decision::Failed(error)),
            WriteStep::Hint(place) => hints.push(place),
        });
        let waker = if decision.is_some() { waker.take() } else { None };
        drop(state);
        for place in hints {
            self.plan.peers.hint(self.plan.node(place), &self.plan.key, self.stamp, &self.payload);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) async fn until_decided(&self) -> Decision {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            match state.decision.take() {
                Some(decision) => Poll::Ready(decision),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<S: Store> Waiter for Writing<S> {
    fn answered(self: Rc<Self>, place: usize, answer: Result<Answer, PeerError>) {
        let answer = match answer {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::Stale(version)) => {
                let mut state = self.state.borrow_mut();
                state.newest = state.newest.max(Some(version));
                Ok(())
            }
            Ok(Answer::Refused(refusal)) => Err(Failure::Refused(refusal)),
            Ok(_) => Err(Failure::Broken),
            Err(error) if error.is_of_the_connection() && self.may_ask_again(place) => {
                let value = if let Payload::Whole(value) = &self.payload { value.clone() } else { None };
                return self.send(&self.request(value), place);
            }
            Err(error) => Err(failure(&error)),
        };
        self.settled(place, answer);
    }
}

impl<S: Store> Writing<S> {
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
        self.step(|core, step| core.deadline(step));
    }
}
