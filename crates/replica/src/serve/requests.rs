//! What a node does as one of the replicas of a key, for peers.

use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{AcceptAnswer, Origin, Refusal, WriteAnswer};
use ladoga_local::store::{LocalStore, Lookup, Store, StoreError, StoredCell, Upload, WriteKind};
use ladoga_model::{Cell, Durability, Stamp, VALUE_BYTES_MAX, Value, Version};
use ladoga_runtime::{LoopContext, OpenSpan, Taken};

use super::asked::Asked;
use super::opened::Uploading;
use super::session::Session;
use crate::own::refusal;
use crate::own::replica::{acknowledged, admit, apply_upload, large_value_of, read_answer};
use crate::own::{Arrival, promises};
use crate::planted::{Bug, strikes};
use crate::stability::Admitted;
use crate::wire::{Answer, Base};

/// A request of a peer's client that this node answers as a replica.
pub(super) struct Served {
    core: Rc<LoopContext>,
    began_ns: u64,
}

impl Served {
    pub(super) fn since(began_ns: u64, core: &Rc<LoopContext>) -> Served {
        Served { core: Rc::clone(core), began_ns }
    }

    /// The request was answered with what it asked for.
    fn ends(self) {
        let duration_ns = self.core.clock.monotonic_ns().saturating_sub(self.began_ns);
        self.core.metrics.served_a_peer(duration_ns);
    }
}

pub(super) fn read<S: Store>(
    session: &Rc<Session<S>>,
    (asked, served): (Asked<S>, Option<Served>),
    key: &[u8],
    (digest, origin): (bool, Origin),
) {
    let stability = session.cluster.stability();
    let is_whole = match stability.vouches() {
        // Its client waits for one that knows. Who repairs takes what there is.
        Err(refusal) if served.is_some() => return session.answer(asked.number, &Answer::Refused(refusal)),
        vouches => vouches == Ok(true),
    };
    let hides_cells = stability.hides_cells();
    if hides_cells && stability.is_outdated() && origin == Origin::Exchange {
        // It was listed before this node heard that its directory is of no use.
        return session.answer(asked.number, &Answer::Refused(Refusal::Rebuilding));
    }
    // Anti-entropy handles other old cells by itself.
    let is_hidden = hides_cells && origin != Origin::Exchange;
    let answer = move |found: Result<Option<StoredCell>, StoreError>| match found {
        Ok(found) => {
            let found = found.filter(|_| !is_hidden);
            if let Some(served) = served {
                served.ends();
            }
            Answer::Read(read_answer(found, digest, is_whole))
        }
        Err(error) => Answer::Refused(refusal(&error)),
    };
    match session.replica.store.get_cell(key) {
        Lookup::Now(found) => session.answer(asked.number, &answer(found)),
        Lookup::Later(found) => {
            let core = Rc::clone(&session.replica.core);
            let part = core.begin_part(asked.trace());
            session.answer_later(asked, async move {
                let found = found.await;
                core.end_part(part, "disk");
                answer(found)
            });
        }
    }
}

/// The writes of one turn: they are committed together.
pub(super) struct Writes<S: Store> {
    values: Vec<Write<S>>,
    /// Those that share no other's fate: deletions, which a full disk takes, and what has to be durable before the others.
    apart: Vec<Write<S>>,
}

struct Write<S: Store> {
    asked: Asked<S>,
    served: Option<Served>,
    key: Bytes,
    stamp: Stamp,
    value: Option<Bytes>,
    durability: Option<Durability>,
    arrival: Arrival,
    /// Until it is applied, or has failed.
    admitted: Admitted,
}

impl<S: Store> Default for Writes<S> {
    fn default() -> Writes<S> {
        Writes { values: Vec::new(), apart: Vec::new() }
    }
}

impl<S: Store> Writes<S> {
    /// Takes a write, or refuses it.
    pub(super) fn add(
        &mut self,
        session: &Rc<Session<S>>,
        (asked, served): (Asked<S>, Option<Served>),
        (key, stamp, value): (Bytes, Stamp, Option<Bytes>),
        (origin, is_again): (Origin, bool),
        durability: Option<Durability>,
    ) {
        let replica = &session.replica;
        let arrival = Arrival::of(replica, &key, stamp.version, (origin, is_again), durability);
        let bytes = value.as_ref().map(|value| value.len() as u64);
        let admitted = match admit(replica, stamp, bytes, origin) {
            Ok(admitted) => admitted,
            Err(refusal) => return session.answer(asked.number, &Answer::Refused(refusal)),
        };
        if strikes(Bug::AckWithoutWriting) {
            return session.answer(asked.number, &Answer::Done);
        }
        let write = Write { asked, served, key, stamp, value, durability, arrival, admitted };
        let is_one_of_many = write.value.is_some() && durability.is_none();
        if is_one_of_many { self.values.push(write) } else { self.apart.push(write) }
    }
}

/// Commits the writes of a turn, and answers each.
pub(super) fn write<S: Store>(session: &Rc<Session<S>>, writes: Writes<S>) {
    let Writes { values, apart } = writes;
    let one_by_one = apart.into_iter().map(|write| vec![write]);
    for group in std::iter::once(values).chain(one_by_one).filter(|group| !group.is_empty()) {
        let cells = group.iter().map(|Write { key, stamp, value, .. }| {
            (&key[..], Cell { stamp: *stamp, value: value.as_deref().map(Value::Inline) })
        });
        let applied = session.replica.store_for(group[0].durability).apply(cells);
        let core = &session.replica.core;
        let parts = group.iter().filter_map(|write| core.begin_part(write.asked.trace())).collect();
        session.answer_all_later(answers(Rc::clone(session), (group, parts), applied));
    }
}

/// What becomes of writes that are committed together. Those for which something is waited for are answered by themselves.
async fn answers<S: Store>(
    session: Rc<Session<S>>,
    (group, parts): (Vec<Write<S>>, Vec<OpenSpan>),
    applied: <S::Local as LocalStore>::Apply,
) -> Vec<(Asked<S>, Answer)> {
    let applied = applied.await;
    let replica = &session.replica;
    parts.into_iter().for_each(|part| replica.core.end_part(Some(part), "commit"));
    let mut answers = Vec::with_capacity(group.len());
    let mut newest = None;
    for (number, Write { asked, served, key, stamp, arrival, admitted, .. }) in group.into_iter().enumerate()
    {
        drop(admitted);
        let outcome = arrival.outcome(replica, &key, (&applied, number)).await;
        if let Ok(WriteAnswer::Applied | WriteAnswer::Superseded { .. }) = outcome {
            newest = newest.max(Some(stamp.version));
            if let Some(served) = served {
                served.ends();
            }
        }
        if arrival.is_open(replica, &key, &outcome) {
            let replica = Rc::clone(replica);
            session.answer_later(asked, async move {
                let known = arrival.once_known(&replica, &key, outcome).await;
                known.map_or_else(Answer::Refused, Answer::of_write)
            });
            continue;
        }
        answers.push((asked, outcome.map_or_else(Answer::Refused, Answer::of_write)));
    }
    acknowledged(replica, newest);
    answers
}

pub(super) fn open_value<S: Store>(session: &Rc<Session<S>>, asked: Asked<S>, key: &[u8], version: Version) {
    let found = session.replica.store.get_cell(key);
    let opening = Rc::clone(session);
    session.answer_later(asked, async move {
        match found.wait().await.map(|found| large_value_of(found, version)) {
            Ok(Some(pieces)) => opening.open(pieces).await,
            Ok(None) => Answer::Gone,
            Err(error) => Answer::Refused(refusal(&error)),
        }
    });
}

pub(super) fn begin_upload<S: Store>(session: &Rc<Session<S>>, asked: Asked<S>) {
    let store = &session.replica.store;
    if let Err(refusal) = session.cluster.stability().vouches() {
        // By the time of its end, it could have to be refused.
        return session.answer(asked.number, &Answer::Refused(refusal));
    }
    let admitted = store.admit(WriteKind::Put, store.upload_bytes_min());
    let entered = admitted.map_err(|error| refusal(&error)).and_then(|()| {
        let entered = session.replica.uploads.enter(session.address(), 1);
        entered.map_err(|_| Refusal::OverCapacity)
    });
    let permit = match entered {
        Ok(permit) => permit,
        Err(refusal) => return session.answer(asked.number, &Answer::Refused(refusal)),
    };
    let upload = store.upload();
    let opening = Rc::clone(session);
    session.answer_later(asked, async move {
        permit.granted().await;
        match (upload.await, opening.opened.number()) {
            (Ok(upload), Some(stream)) => {
                permit.waits();
                opening.give_way_if_displaced(&permit, Taken::Upload, stream);
                let uploading = Uploading { upload: Some(upload), bytes: 0, permit };
                opening.opened.uploads.borrow_mut().insert(stream, uploading);
                Answer::Opened(stream)
            }
            (Ok(_), None) => Answer::Refused(Refusal::OverCapacity),
            (Err(error), _) => Answer::Refused(refusal(&error)),
        }
    });
}

pub(super) fn push<S: Store>(session: &Rc<Session<S>>, asked: Asked<S>, stream: u32, bytes: Bytes) {
    let length = bytes.len() as u64;
    let taken = {
        let mut uploads = session.opened.uploads.borrow_mut();
        uploads.get_mut(&stream).and_then(|uploading| {
            uploading.bytes += length;
            uploading.permit.moved(length);
            uploading.permit.rests();
            // One that is too long is forgotten.
            uploading.upload.take().filter(|_| uploading.bytes <= VALUE_BYTES_MAX)
        })
    };
    let Some(upload) = taken else {
        session.opened.uploads.borrow_mut().remove(&stream);
        return session.answer(asked.number, &Answer::Gone);
    };
    let written = upload.write(bytes);
    let pushing = Rc::clone(session);
    session.answer_later(asked, async move {
        match written.await {
            Ok(upload) => {
                if let Some(uploading) = pushing.opened.uploads.borrow_mut().get_mut(&stream) {
                    uploading.upload = Some(upload);
                    uploading.permit.waits();
                }
                Answer::Done
            }
            Err(error) => {
                pushing.opened.uploads.borrow_mut().remove(&stream);
                Answer::Refused(refusal(&error))
            }
        }
    });
}

pub(super) fn finish_upload<S: Store>(
    session: &Rc<Session<S>>,
    (asked, stream): (Asked<S>, u32),
    (stamp, key): (Stamp, Bytes),
    (origin, durability): (Origin, Option<Durability>),
) {
    let taken = session.opened.uploads.borrow_mut().remove(&stream);
    let Some(Uploading { upload: Some(upload), permit, .. }) = taken else {
        return session.answer(asked.number, &Answer::Gone);
    };
    permit.rests();
    let replica = Rc::clone(&session.replica);
    let arrival = Arrival::of(&replica, &key, stamp.version, (origin, false), durability);
    let finished = upload.finish();
    session.answer_later(asked, async move {
        let finished = match finished.await {
            Ok(finished) => finished,
            Err(error) => return Answer::Refused(refusal(&error)),
        };
        drop(permit);
        let asked = (origin, durability);
        let outcome = apply_upload(&replica, (&key, stamp), finished, arrival, asked).await;
        if let Ok(WriteAnswer::Applied | WriteAnswer::Superseded { .. }) = outcome {
            acknowledged(&replica, Some(stamp.version));
        }
        outcome.map_or_else(Answer::Refused, Answer::of_write)
    });
}

/// Promises to take nothing older, or says what is in the way.
pub(super) fn prepare<S: Store>(
    session: &Rc<Session<S>>,
    asked: Asked<S>,
    key: &Bytes,
    (ballot, durability): (Version, Option<Durability>),
) {
    let prepared = promises::prepare(&session.replica, key, ballot, durability);
    session
        .answer_later(asked, async move { prepared.await.map_or_else(Answer::Refused, Answer::of_prepare) });
}

/// Takes the cell of a ballot, or says what is in the way.
pub(super) fn accept<S: Store>(
    session: &Rc<Session<S>>,
    (asked, served): (Asked<S>, Served),
    (key, stamp, value): (&Bytes, Stamp, Option<Bytes>),
    base: Base,
    durability: Option<Durability>,
) {
    let value = value.map(Value::Inline);
    let accepted = promises::accept(&session.replica, (key, stamp, value), base, durability);
    session.answer_later(asked, async move {
        let accepted = accepted.await;
        if let Ok(AcceptAnswer::Accepted) = accepted {
            served.ends();
        }
        accepted.map_or_else(Answer::Refused, Answer::of_accept)
    });
}

/// The same with a value that was uploaded, which is gone by that.
pub(super) fn accept_upload<S: Store>(
    session: &Rc<Session<S>>,
    (asked, stream): (Asked<S>, u32),
    (key, stamp): (Bytes, Stamp),
    base: Base,
    durability: Option<Durability>,
) {
    let taken = session.opened.uploads.borrow_mut().remove(&stream);
    let Some(Uploading { upload: Some(upload), permit, .. }) = taken else {
        return session.answer(asked.number, &Answer::Gone);
    };
    permit.rests();
    let (replica, finished) = (Rc::clone(&session.replica), upload.finish());
    session.answer_later(asked, async move {
        let finished = match finished.await {
            Ok(finished) => finished,
            Err(error) => return Answer::Refused(refusal(&error)),
        };
        drop(permit);
        let cell = (&key, stamp, Some(Value::Large(finished)));
        let accepted = promises::accept(&replica, cell, base, durability);
        accepted.await.map_or_else(Answer::Refused, Answer::of_accept)
    });
}
