use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ladoga_cluster::Refusal;
use ladoga_runtime::{Permit, Taken};

use super::asked::Asked;
use super::session::Session;
use crate::coordinate::behind;
use crate::own::refusal;
use crate::wire::Answer;
use ladoga_local::store::{LocalStore, Pieces, Store};

/// Streams and uploads that one connection may have open.
const OPENED_MAX: usize = 64;

/// The streams and the uploads that a peer has open over a connection.
pub(super) struct OpenedStreams<S: Store> {
    streams: RefCell<BTreeMap<u32, Stream>>,
    pub(super) uploads: RefCell<BTreeMap<u32, Uploading<S>>>,
    next_number: Cell<u32>,
}

/// Something that a peer takes piece by piece; `None` while a piece is being read.
struct Stream {
    pieces: Option<Box<dyn Pieces>>,
    permit: Permit,
}

/// Something that a peer gives piece by piece; `None` while a piece is being written.
pub(super) struct Uploading<S: Store> {
    pub(super) upload: Option<<S::Local as LocalStore>::Upload>,
    pub(super) bytes: u64,
    pub(super) permit: Permit,
}

impl<S: Store> Default for OpenedStreams<S> {
    fn default() -> OpenedStreams<S> {
        OpenedStreams { streams: RefCell::default(), uploads: RefCell::default(), next_number: Cell::new(0) }
    }
}

impl<S: Store> OpenedStreams<S> {
    /// A number for a stream or an upload, if there may be one more.
    pub(super) fn number(&self) -> Option<u32> {
        if self.streams.borrow().len() + self.uploads.borrow().len() >= OPENED_MAX {
            return None;
        }
        let number = self.next_number.get();
        self.next_number.set(number.wrapping_add(1));
        Some(number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.borrow().is_empty() && self.uploads.borrow().is_empty()
    }

    pub(super) fn close(&self, number: u32) {
        self.streams.borrow_mut().remove(&number);
        self.uploads.borrow_mut().remove(&number);
    }

    pub(super) fn clear(&self) {
        self.streams.borrow_mut().clear();
        self.uploads.borrow_mut().clear();
    }
}

impl<S: Store> Session<S> {
    /// Begins a stream of pieces, once there is room for it; answers its number.
    pub(super) async fn open(self: &Rc<Self>, pieces: Box<dyn Pieces>) -> Answer {
        let Ok(permit) = self.replica.streams.enter(self.address(), 1) else {
            return Answer::Refused(Refusal::OverCapacity);
        };
        permit.granted().await;
        let Some(number) = self.opened.number() else { return Answer::Refused(Refusal::OverCapacity) };
        permit.waits();
        self.give_way_if_displaced(&permit, Taken::Stream, number);
        self.opened.streams.borrow_mut().insert(number, Stream { pieces: Some(pieces), permit });
        Answer::Opened(number)
    }

    /// Gives a stream or an upload up if the peer is so slow that others need its place.
    pub(super) fn give_way_if_displaced(self: &Rc<Self>, permit: &Permit, taken: Taken, number: u32) {
        let (watch, session) = (permit.watch(), Rc::downgrade(self));
        tokio::task::spawn_local(async move {
            if let (Err(displaced), Some(session)) = (watch.await, session.upgrade()) {
                tracing::debug!(%displaced, peer = %session.address(), "a stream of a peer was given up");
                session.replica.core.metrics.displaced(taken);
                session.opened.close(number);
            }
        });
    }

    pub(super) fn next_piece(self: &Rc<Self>, asked: Asked<S>, number: u32, skip: u64) {
        let pieces = self.opened.streams.borrow_mut().get_mut(&number).and_then(|stream| {
            stream.permit.rests();
            stream.pieces.take()
        });
        let Some(mut pieces) = pieces else { return self.answer(asked.number, &Answer::Gone) };
        let passed = pieces.skip(skip);
        let next = pieces.next();
        let session = Rc::clone(self);
        self.answer_later(asked, async move {
            match behind(next.await, passed).await {
                Ok(Some((bytes, rest))) => {
                    if let Some(stream) = session.opened.streams.borrow_mut().get_mut(&number) {
                        stream.pieces = Some(rest);
                        stream.permit.moved(bytes.len() as u64);
                        stream.permit.waits();
                    }
                    Answer::Piece(bytes)
                }
                Ok(None) => {
                    drop(session.opened.streams.borrow_mut().remove(&number).map(|stream| stream.permit));
                    Answer::End
                }
                Err(error) => Answer::Refused(refusal(&error)),
            }
        });
    }
}
