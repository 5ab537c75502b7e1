use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{
    Failure, Had, Origin, QuorumError, READ_WAIT_MS, ReadAnswer, ReadCore, ReadStep, Refusal, SentCell,
    WriteAnswer,
};
use ladoga_model::{CellMark, Stamp, Value, Version};

use super::failures::{failure, unexpected};
use super::fetch::{HeldCell, HeldValue, copy_large};
use super::plan::Plan;
use super::standing::Standing;
use super::starting::{IS_STARTING, Starting, until_asked_again};
use super::write::FENCED_MS_MAX;
use crate::bounds::{CopyName, CopyReader, CopyRequest, NotCopied};
use crate::link::{Expires, PeerError, Place, Waiter};
use crate::own::{refusal, replica};
use crate::wire::{Answer, Request};
use ladoga_local::store::{LocalStore, Lookup, Store, StoreError, StoredCell};
use ladoga_runtime::OneShot;

/// The slots of a reading: the first answers, values that only a digest came of, and repairs, each by place; the repairs
/// with each further version in as many slots more.
const FETCH_SLOTS: usize = 64;
const REPAIR_SLOTS: usize = 128;

/// Reads the newest cell of a key from its nodes, which may be a deletion; it fails in the words of the machine. Of what was said before
/// a disk was lost, nothing is left but to ask again: the replica whose disk it was does not vouch any more, and the others may do.
pub(super) async fn decision<S: Store>(plan: &Plan<S>) -> Result<Option<HeldCell>, QuorumError> {
    let until_ms = plan.until_ms();
    let reading = Reading::begin(plan);
    let decided = reading.decision.take().await;
    if !reading.is_taken_back.get() {
        return decided;
    }
    match plan.rest(until_ms) {
        Some(rest) => Reading::begin(&rest).decision.take().await,
        None => decided,
    }
}

/// The newest version of a key that its nodes report, also if it is that of a deletion; and whether as many of them answered as
/// the plan asks for.
pub(super) async fn newest_version<S: Store>(plan: &Plan<S>) -> (Option<Version>, bool) {
    let reading = Reading::begin(plan);
    let is_quorum = reading.decision.take().await.is_ok();
    let newest = reading.state.borrow().core.newest_version();
    (newest, is_quorum)
}

/// A read under way. It lives until every replica has answered and is repaired, or was waited for long enough.
struct Reading<S: Store> {
    plan: Plan<S>,
    state: RefCell<ReadingState>,
    decision: OneShot<Result<Option<HeldCell>, QuorumError>>,
    starting: Starting,
    standing: Standing,
    /// Whether it was decided by what does not count any more.
    is_taken_back: Cell<bool>,
    _expires: Place,
}

struct ReadingState {
    core: ReadCore<Bytes, HeldValue>,
    /// The cells that replicas were sent in order to repair them, in the order in which they were decided on.
    repairs: Vec<CellMark>,
    asked_again: u64,
}

impl<S: Store> Reading<S> {
    /// Asks all replicas. If this node is one, its value is at hand, and digests do for the others.
    fn begin(plan: &Plan<S>) -> Rc<Reading<S>> {
        let state = ReadingState { core: ReadCore::new(plan.replicas), repairs: Vec::new(), asked_again: 0 };
        let reading = Rc::new_cyclic(|reading: &Weak<Reading<S>>| Reading {
            plan: plan.clone(),
            state: RefCell::new(state),
            decision: OneShot::default(),
            starting: Starting::default(),
            standing: Standing::of(plan, false),
            is_taken_back: Cell::new(false),
            _expires: plan.expire_later(reading.clone()),
        });
        let own_place = plan.own_place();
        let request = reading.request(own_place.is_some());
        for (place, &node) in plan.nodes().iter().enumerate() {
            if node != plan.cluster().own {
                reading.send(&request, place, place);
            }
        }
        if let Some(place) = own_place {
            reading.look_up(place);
        }
        reading
    }

    fn request(&self, digest: bool) -> Request {
        Request::Read { key: self.plan.key.clone(), digest, origin: Origin::Client }
    }

    fn send(self: &Rc<Self>, request: &Request, place: usize, slot: usize) {
        let waiter = Rc::clone(self);
        if let Err(error) = self.plan.link(place).send((request, self.plan.trace), waiter, slot) {
            self.failed(slot, failure(&error));
        }
    }

    /// Asks this node, without a network.
    fn look_up(self: &Rc<Self>, place: usize) {
        match self.plan.replica.store.get_cell(&self.plan.key) {
            Lookup::Now(found) => self.looked_up(place, found),
            Lookup::Later(found) => {
                let reading = Rc::clone(self);
                let part = self.plan.replica.core.begin_part(self.plan.trace);
                tokio::task::spawn_local(async move {
                    let found = found.await;
                    reading.plan.replica.core.end_part(part, "disk");
                    reading.looked_up(place, found);
                });
            }
        }
    }

    fn looked_up(self: &Rc<Self>, place: usize, found: Result<Option<StoredCell>, StoreError>) {
        let answer = match found {
            Ok(found) => {
                let stability = self.plan.cluster().stability();
                let is_whole = stability.has_all();
                self.standing.vouch(is_whole);
                let found = found.filter(|_| !stability.hides_cells());
                Ok(with_holder(replica::read_answer(found, false, is_whole), place))
            }
            Err(error) => Err(Failure::Refused(refusal(&error))),
        };
        self.step(|core, step| core.answered(place, answer, step));
    }

    fn failed(self: &Rc<Self>, slot: usize, failure: Failure) {
        let place = slot % FETCH_SLOTS;
        if slot >= REPAIR_SLOTS {
            self.repaired(place, self.repair_of(slot), Err(failure));
        } else {
            self.step(|core, step| core.answered(place, Err(failure), step));
        }
    }

    /// The version whose repair is answered in this slot. An answer to an older one tells nothing about the newest.
    fn repair_of(&self, slot: usize) -> Version {
        self.state.borrow().repairs[(slot - REPAIR_SLOTS) / FETCH_SLOTS].stamp.version
    }

    /// The slot for the answer of the replica at `place` to its repair.
    fn repair_slot(&self, place: usize, cell: CellMark) -> usize {
        let repairs = &mut self.state.borrow_mut().repairs;
        let known = repairs.iter().position(|&other| other == cell);
        let index = known.unwrap_or_else(|| {
            repairs.push(cell);
            repairs.len() - 1
        });
        REPAIR_SLOTS + index * FETCH_SLOTS + place
    }

    /// Whether the cell of this version is a deletion, or is one by now. A replica that lacks it, and takes nothing so old any more, has
    /// dropped it: it had that or something newer before it closed, and whoever drops something newer has seen all replicas have it.
    fn is_gone(&self, version: Version) -> bool {
        let time_ms = self.plan.cluster().versions.expiry_time_ms();
        let repairs = &self.state.borrow().repairs;
        let cell = repairs.iter().find(|cell| cell.stamp.version == version);
        cell.is_some_and(|cell| cell.is_tombstone || cell.stamp.is_expired(time_ms))
    }

    fn repaired(self: &Rc<Self>, place: usize, version: Version, answer: Result<WriteAnswer, Failure>) {
        if matches!(answer, Ok(WriteAnswer::Fenced { .. })) && !self.state.borrow().core.is_decided() {
            self.give_way_later();
        }
        let answer = match answer {
            Err(Failure::Refused(Refusal::TooOld { .. })) if self.is_gone(version) => {
                Ok(WriteAnswer::Superseded { newest: version, had: Had::Once })
            }
            answer => answer,
        };
        self.step(|core, step| core.repaired(place, version, answer, step));
    }

    /// Lets the machine take a step, and executes its output.
    fn step(
        self: &Rc<Self>,
        act: impl FnOnce(&mut ReadCore<Bytes, HeldValue>, &mut dyn FnMut(ReadStep<Bytes, HeldValue>)),
    ) {
        let mut to_do = Vec::new();
        act(&mut self.state.borrow_mut().core, &mut |step| match step {
            ReadStep::Decided(decided) => {
                let error = decided.is_ok().then(|| self.standing.taken_back(&self.plan)).flatten();
                self.is_taken_back.set(error.is_some());
                self.decision.set(error.map_or(decided, Err));
            }
            step => to_do.push(step),
        });
        for step in to_do {
            match step {
                ReadStep::Fetch(place) => self.fetch(place),
                ReadStep::Repair(place, cell) => self.repair(place, cell),
                ReadStep::Wait => self.hurry_later(),
                ReadStep::Decided(_) => unreachable!("taken out before"),
            }
        }
    }

    /// Asks a replica for its newest value: this node, too, if a repair of its cell met something newer here.
    fn fetch(self: &Rc<Self>, place: usize) {
        if self.plan.own_place() == Some(place) {
            return self.look_up(place);
        }
        self.send(&self.request(false), place, FETCH_SLOTS + place);
    }

    fn hurry_later(self: &Rc<Self>) {
        let reading = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(READ_WAIT_MS)).await;
            if let Some(reading) = reading.upgrade() {
                reading.step(|core, step| core.hurry(step));
            }
        });
    }

    /// Ends it in time, if it still needs replicas of which one has promised not to take the cell. Those that say nothing may do so for as
    /// long as they are waited for, and nobody else ends the promise of a coordinator that is gone.
    fn give_way_later(self: &Rc<Self>) {
        let reading = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(FENCED_MS_MAX)).await;
            if let Some(reading) =
                reading.upgrade().filter(|reading| !reading.state.borrow().core.is_decided())
            {
                reading.step(|core, step| core.deadline(step));
            }
        });
    }

    fn repair(self: &Rc<Self>, place: usize, cell: HeldCell) {
        let slot = self.repair_slot(place, cell.mark());
        let HeldCell { stamp, value } = cell;
        self.plan.replica.core.metrics.read_repair();
        let value = match value {
            Some(Value::Inline(bytes)) => Some(bytes),
            None => None,
            Some(Value::Large(held)) => return self.copy(place, stamp, held),
        };
        let plan = &self.plan;
        let bytes = value.as_ref().map_or(0, Bytes::len) as u64;
        if self.may_be_left() && !plan.cluster().pace.try_draw_cell(bytes) {
            plan.replica.core.metrics.read_repair_left();
            let refusal = Refusal::OverCapacity;
            return self.repaired(place, stamp.version, Err(Failure::Refused(refusal)));
        }
        if plan.node(place) != plan.cluster().own {
            let (key, origin) = (plan.key.clone(), Origin::Repair);
            let request = Request::Write { key, stamp, value, origin, is_again: false, durability: None };
            return self.send(&request, place, slot);
        }
        let reading = Rc::clone(self);
        plan.apply((stamp, value.as_deref()), Origin::Repair, move |applied| {
            reading.repaired(place, stamp.version, applied);
        });
    }

    /// Whether no client waits for a repair: then hints and anti-entropy may do it instead, at the pace of repair.
    fn may_be_left(&self) -> bool {
        self.state.borrow().core.is_decided()
    }

    /// Copies a large value to a replica that lacks it.
    fn copy(self: &Rc<Self>, place: usize, stamp: Stamp, held: HeldValue) {
        let plan = &self.plan;
        let name = CopyName { key: plan.key.clone(), version: stamp.version, to: plan.node(place) };
        let reader: Rc<dyn CopyReader> = Rc::<Reading<S>>::clone(self);
        match plan.replica.copies.wish(&plan.cluster().copy_turns, name, &reader, place) {
            CopyRequest::New(mut copying) => {
                let reading = Rc::clone(self);
                tokio::task::spawn_local(async move {
                    let outcome = copy_large(&reading.plan, stamp, (held, place), &mut copying).await;
                    copying.ends(outcome);
                });
            }
            CopyRequest::Joined => {}
            CopyRequest::UnderWay => {
                let refusal = Refusal::OverCapacity;
                self.repaired(place, stamp.version, Err(Failure::Refused(refusal)));
            }
        }
    }

    /// Asks a replica that is starting again, as long as the read waits for it.
    fn ask_once_it_has_started(self: &Rc<Self>, place: usize) {
        self.starting.insert(place);
        let replica = Rc::clone(&self.plan.replica);
        let (node, reading) = (self.plan.node(place), Rc::downgrade(self));
        tokio::task::spawn_local(async move {
            let is_asked = until_asked_again(&replica, node).await;
            let Some(reading) = reading.upgrade().filter(|reading| reading.starting.remove(place)) else {
                return;
            };
            if is_asked && !reading.state.borrow().core.is_decided() {
                let request = reading.request(reading.plan.own_place().is_some());
                reading.send(&request, place, place);
            } else {
                reading.failed(place, IS_STARTING);
            }
        });
    }

    /// Not once it is decided: a second answer would be of use for a repair only, and thousands of reads may have waited
    /// for a peer that is frozen.
    fn may_ask_again(&self, place: usize) -> bool {
        let mut state = self.state.borrow_mut();
        let bit = 1 << place;
        let may = state.asked_again & bit == 0 && !state.core.is_decided();
        state.asked_again |= bit;
        may
    }
}

/// The answer of the replica at `place`.
fn with_holder(answer: ReadAnswer<Bytes, u64>, place: usize) -> ReadAnswer<Bytes, HeldValue> {
    let ReadAnswer { cell, is_whole } = answer;
    let cell = cell.map(|cell| match cell {
        SentCell::Whole(cell) => SentCell::Whole(cell.map_large(|bytes| HeldValue::new(bytes, place))),
        SentCell::Digest(stamp) => SentCell::Digest(stamp),
    });
    ReadAnswer { cell, is_whole }
}

impl<S: Store> Waiter for Reading<S> {
    fn answered(self: Rc<Self>, slot: usize, answer: Result<Answer, PeerError>) {
        let place = slot % FETCH_SLOTS;
        match answer {
            Ok(Answer::Read(answer)) if slot < REPAIR_SLOTS => {
                let answer = with_holder(answer, place);
                self.step(|core, step| core.answered(place, Ok(answer), step));
            }
            Ok(Answer::Refused(Refusal::Starting)) if slot < FETCH_SLOTS => {
                self.ask_once_it_has_started(place);
            }
            Ok(Answer::Refused(refusal)) => self.failed(slot, Failure::Refused(refusal)),
            Ok(answer) if slot >= REPAIR_SLOTS => {
                let said = answer.into_write_answer().map_err(|other| unexpected(Ok(other)));
                self.repaired(place, self.repair_of(slot), said);
            }
            Ok(_) => self.failed(slot, Failure::Broken),
            Err(error) if error.is_of_the_connection() && slot < FETCH_SLOTS && self.may_ask_again(place) => {
                let request = self.request(false);
                self.send(&request, place, slot);
            }
            Err(error) => self.failed(slot, failure(&error)),
        }
    }
}

impl<S: Store> CopyReader for Reading<S> {
    fn awaits(&self) -> bool {
        !self.state.borrow().core.is_decided()
    }

    fn copied(self: Rc<Self>, place: usize, version: Version, outcome: Result<WriteAnswer, NotCopied>) {
        let said = match outcome {
            Err(NotCopied::Gone) => return self.step(|core, step| core.replaced(place, version, step)),
            Err(NotCopied::BySource(failure) | NotCopied::ByTarget(failure)) => Err(failure),
            Err(NotCopied::NoTurn) => Err(Failure::Refused(Refusal::OverCapacity)),
            Ok(answer) => Ok(answer),
        };
        self.repaired(place, version, said);
    }
}

impl<S: Store> Expires for Reading<S> {
    fn expire(self: Rc<Self>) {
        self.starting.take_all().for_each(|place| self.failed(place, IS_STARTING));
        self.step(|core, step| core.deadline(step));
    }
}
