use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use ladoga_cluster::{NodeId, Refusal};

use super::cluster::{Cluster, PeerView};
use super::listing;
use super::replica::{self, Served, Writes};
use super::wire::{Answer, FRAME_BYTES_MAX, FrameError, Origin, Request, take_frame};
use crate::gate::Permit;
use crate::server::{EventLoop, Link};
use crate::store::{LocalStore, Pieces, Store};

/// Requests of one connection that are being served; beyond, the connection is not read.
const SESSION_REQUESTS_MAX: usize = 4_096;
/// Answers that wait to be written; beyond, the connection is not read.
const SESSION_OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Bytes of answers that may be read from the disk meanwhile; beyond, the connection is not read. How long they are is
/// known once they are there, so each counts as a frame.
const SESSION_READ_BYTES_MAX: usize = 16 << 20;
const SESSION_READS_MAX: usize = SESSION_READ_BYTES_MAX / FRAME_BYTES_MAX;
/// Streams and uploads that one connection may have open.
const SESSION_STREAMS_MAX: usize = 64;
/// Bytes that stay allocated for answers; what was larger is given back.
const BUFFER_BYTES_KEPT: usize = 256 << 10;
/// How often, within the time in which a silent node counts as frozen, one that is at work says so.
const ALIVE_SHARE: u64 = 4;

/// A connection that a peer has made to this node.
pub(super) struct Session<S: Store> {
    pub(super) event_loop: Rc<EventLoop<S>>,
    pub(super) cluster: Arc<Cluster>,
    peer: RefCell<Option<Arc<PeerView>>>,
    link: Rc<Link>,
    output: RefCell<BytesMut>,
    in_flight: Cell<usize>,
    /// Of those in flight, what is read from the disk.
    reads: Cell<usize>,
    /// When it was last looked whether anything came.
    looked_at_ns: Cell<u64>,
    has_spoken: Cell<bool>,
    /// Whether the tree is being compared for this peer.
    compares: Cell<bool>,
    task: RefCell<Option<Waker>>,
    streams: RefCell<HashMap<u32, Stream>>,
    pub(super) uploads: RefCell<HashMap<u32, Uploading<S>>>,
    next_stream: Cell<u32>,
}

/// Something that a peer takes piece by piece; `None` while a piece is being read.
pub(super) struct Stream {
    pieces: Option<Box<dyn Pieces>>,
    permit: Permit,
}

/// Something that a peer gives piece by piece; `None` while a piece is being written.
pub(super) struct Uploading<S: Store> {
    pub(super) upload: Option<<S::Local as LocalStore>::Upload>,
    pub(super) bytes: u64,
    pub(super) permit: Permit,
}

/// Serves a peer until it closes the connection, or this node is to stop.
pub(crate) async fn serve<S: Store>(event_loop: &Rc<EventLoop<S>>, link: &Rc<Link>) -> io::Result<()> {
    let cluster = event_loop.node.cluster.as_ref().expect("the handler saw to it");
    let session = Rc::new(Session {
        event_loop: Rc::clone(event_loop),
        cluster: Arc::clone(cluster),
        peer: RefCell::new(None),
        link: Rc::clone(link),
        output: RefCell::default(),
        in_flight: Cell::new(0),
        reads: Cell::new(0),
        looked_at_ns: Cell::new(0),
        has_spoken: Cell::new(false),
        compares: Cell::new(false),
        task: RefCell::new(None),
        streams: RefCell::default(),
        uploads: RefCell::default(),
        next_stream: Cell::new(0),
    });
    let alive = tokio::task::spawn_local(Rc::clone(&session).say_alive());
    let mut input = BytesMut::new();
    let served = poll_fn(|context| session.poll(&mut input, context)).await;
    alive.abort();
    session.streams.borrow_mut().clear();
    session.uploads.borrow_mut().clear();
    served
}

impl<S: Store> Session<S> {
    fn poll(self: &Rc<Self>, input: &mut BytesMut, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.driven_by(context.waker());
        *self.task.borrow_mut() = Some(context.waker().clone());
        let is_draining = self.event_loop.core.is_draining();
        let is_over = if is_draining { self.in_flight.get() == 0 } else { self.take(input, context)? };
        match self.give(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) if is_over => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }

    /// Takes what has come, as far as there is room for its answers. Answers whether the peer is done.
    fn take(self: &Rc<Self>, input: &mut BytesMut, context: &mut Context<'_>) -> io::Result<bool> {
        let invalid = |error: FrameError| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut writes = Writes::default();
        self.looked_at_ns.set(self.event_loop.core.clock.monotonic_ns());
        let ended = loop {
            if self.is_full() {
                // What is answered, or written, wakes the task.
                break Ok(false);
            }
            match take_frame(input)
                .and_then(|frame| frame.map(|frame| Ok((frame.request, Request::of(&frame)?))).transpose())
            {
                Ok(Some((number, request))) => {
                    if let Err(end) = self.understand(number, request, &mut writes) {
                        break end;
                    }
                    continue;
                }
                Ok(None) => {}
                Err(error) => break Err(invalid(error)),
            }
            match self.link.poll_take(context, input) {
                Poll::Pending => break Ok(false),
                Poll::Ready(Ok(0)) => break Ok(true),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => break Err(error),
            }
        };
        replica::write(self, writes);
        ended
    }

    fn is_full(&self) -> bool {
        self.in_flight.get() >= SESSION_REQUESTS_MAX
            || self.reads.get() >= SESSION_READS_MAX
            || self.output.borrow().len() >= SESSION_OUTPUT_BYTES_MAX
    }

    /// Serves a request. An error says how the connection ends.
    fn understand(
        self: &Rc<Self>,
        number: u32,
        request: Request,
        writes: &mut Writes,
    ) -> Result<(), io::Result<bool>> {
        if let Request::Hello(theirs) = &request {
            let wall_ms = self.event_loop.core.clock.wall_ms();
            return match self.cluster.greeted(theirs, wall_ms) {
                Ok(peer) => {
                    *self.peer.borrow_mut() = Some(peer);
                    self.answer(number, &Answer::Hello(self.cluster.hello(wall_ms)));
                    Ok(())
                }
                Err(difference) => {
                    let own = self.cluster.nodes.name(self.cluster.own);
                    let line = format!("{own} refuses {}: {difference}", theirs.url());
                    self.answer(number, &Answer::Stranger(line));
                    Err(Ok(true))
                }
            };
        }
        if self.peer.borrow().is_none() {
            let line = "a peer that does not greet".to_owned();
            return Err(Err(io::Error::new(io::ErrorKind::InvalidData, line)));
        }
        self.serve(number, request, writes);
        Ok(())
    }

    fn serve(self: &Rc<Self>, number: u32, request: Request, writes: &mut Writes) {
        if let Request::Close { stream } = request {
            self.streams.borrow_mut().remove(&stream);
            self.uploads.borrow_mut().remove(&stream);
            return;
        }
        let Some(store) = self.event_loop.store() else {
            return self.answer(number, &Answer::Refused(Refusal::OverCapacity));
        };
        match request {
            Request::Read { key, digest, origin } => {
                let served = (origin == Origin::Client).then(|| self.served());
                replica::read(self, &store, (number, served), &key, digest);
            }
            Request::Write { key, stamp, value, origin } => {
                let served = (origin == Origin::Client).then(|| self.served());
                writes.add(self, (number, served), (key, stamp, value), origin);
            }
            Request::Statement(_) | Request::Groups(_) | Request::Leaves { .. } => {
                self.compare(number, request);
            }
            Request::List { slice, partitions, after } => {
                listing::list(self, &store, number, (slice, partitions, after));
            }
            Request::OpenValue { key, version } => replica::open_value(self, &store, number, &key, version),
            Request::OpenCells { start, end } => {
                let end = (!end.is_empty()).then_some(end);
                self.open(number, store.cells(start, end, super::wire::put_record));
            }
            Request::Next { stream } => self.next_piece(number, stream),
            Request::Upload => replica::begin_upload(self, &store, number),
            Request::Push { stream, bytes } => replica::push(self, number, stream, bytes),
            Request::Finish { stream, stamp, key, origin } => {
                replica::finish_upload(self, store, (number, stream), (stamp, key), origin);
            }
            Request::Hello(_) | Request::Close { .. } => unreachable!("served before"),
        }
    }

    /// A request of one of the peer's clients begins to be served.
    fn served(&self) -> Served {
        Served::since(self.looked_at_ns.get(), &self.event_loop.core)
    }

    /// Who speaks, once it has greeted.
    pub(super) fn peer_id(&self) -> Option<NodeId> {
        self.peer.borrow().as_ref().map(|peer| peer.id)
    }

    /// Tells what is settled here, or what there is, as hashes.
    fn compare(self: &Rc<Self>, number: u32, request: Request) {
        let (Some(peer), Some(settled)) = (self.peer_id(), self.cluster.settled.get()) else {
            return self.answer(number, &Answer::Refused(Refusal::Rebuilding));
        };
        if let Request::Statement(theirs) = request {
            replica::observe(&self.event_loop, theirs.clock);
            settled.heard(peer, theirs);
            let wall_ms = self.event_loop.core.clock.wall_ms();
            let statement = settled.statement(self.event_loop.node.versions.next(wall_ms));
            return self.answer(number, &Answer::Statement(statement));
        }
        // A peer compares one thing at a time, and each takes half a megabyte meanwhile.
        if self.compares.replace(true) {
            return self.answer(number, &Answer::Refused(Refusal::OverCapacity));
        }
        let (session, settled) = (Rc::clone(self), Arc::clone(settled));
        self.answer_later(number, async move {
            let found = match request {
                Request::Groups(slice) => settled
                    .groups(peer, slice)
                    .await
                    .map(|(dropped_before, hashes)| Answer::Groups { dropped_before, hashes }),
                Request::Leaves { slice, groups } => {
                    settled.leaves(peer, slice, &groups).await.map(Answer::Leaves)
                }
                _ => unreachable!("the caller sees to it"),
            };
            session.compares.set(false);
            listing::hashes(found)
        });
    }

    /// Answers a request.
    pub(super) fn answer(&self, number: u32, answer: &Answer) {
        answer.put(&mut self.output.borrow_mut(), number);
        self.has_spoken.set(true);
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// Answers a request when `answer` is known.
    pub(super) fn answer_later(self: &Rc<Self>, number: u32, answer: impl Future<Output = Answer> + 'static) {
        self.in_flight.set(self.in_flight.get() + 1);
        let session = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = answer.await;
            session.in_flight.set(session.in_flight.get() - 1);
            session.answer(number, &answer);
        });
    }

    /// The same for what is read from the disk, and may be as long as a frame.
    pub(super) fn read_later(self: &Rc<Self>, number: u32, answer: impl Future<Output = Answer> + 'static) {
        self.reads.set(self.reads.get() + 1);
        let session = Rc::clone(self);
        self.answer_later(number, async move {
            let answer = answer.await;
            session.reads.set(session.reads.get() - 1);
            answer
        });
    }

    /// Answers several requests when `answers` are known.
    pub(super) fn answer_all_later(
        self: &Rc<Self>,
        answers: impl Future<Output = Vec<(u32, Answer)>> + 'static,
    ) {
        // Counted as one: what bounds them is the queue of the store.
        self.in_flight.set(self.in_flight.get() + 1);
        let session = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answers = answers.await;
            session.in_flight.set(session.in_flight.get() - 1);
            for (number, answer) in answers {
                session.answer(number, &answer);
            }
        });
    }

    /// Writes answers, in as few writes as the socket takes. Ready once all are out.
    fn give(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut output = self.output.borrow_mut();
        while !output.is_empty() {
            match self.link.poll_write(context, &output) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => output.advance(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        if output.capacity() > BUFFER_BYTES_KEPT {
            *output = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Says from time to time that answers are still to come: a slow disk is not a frozen node.
    async fn say_alive(self: Rc<Self>) {
        let every_ms = (self.cluster.limits.peer_timeout_ms / ALIVE_SHARE).max(1);
        let mut ticks = tokio::time::interval(Duration::from_millis(every_ms));
        loop {
            ticks.tick().await;
            if self.in_flight.get() > 0 && !self.has_spoken.replace(false) {
                self.answer(u32::MAX, &Answer::Alive);
            }
        }
    }

    /// A number for a stream or an upload, if there may be one more.
    pub(super) fn new_stream(&self) -> Option<u32> {
        if self.streams.borrow().len() + self.uploads.borrow().len() >= SESSION_STREAMS_MAX {
            return None;
        }
        let number = self.next_stream.get();
        self.next_stream.set(number.wrapping_add(1));
        Some(number)
    }

    /// Begins a stream of pieces.
    pub(super) fn open(&self, number: u32, pieces: Box<dyn Pieces>) {
        let opened = match (self.new_stream(), self.event_loop.node.streams.enter()) {
            (Some(stream), Ok(permit)) => {
                self.streams.borrow_mut().insert(stream, Stream { pieces: Some(pieces), permit });
                Answer::Opened(stream)
            }
            _ => Answer::Refused(Refusal::OverCapacity),
        };
        self.answer(number, &opened);
    }

    fn next_piece(self: &Rc<Self>, number: u32, stream: u32) {
        let pieces = self.streams.borrow_mut().get_mut(&stream).and_then(|stream| stream.pieces.take());
        let Some(pieces) = pieces else { return self.answer(number, &Answer::Gone) };
        let next = pieces.next();
        let session = Rc::clone(self);
        self.read_later(number, async move {
            match next.await {
                Ok(Some((bytes, rest))) => {
                    if let Some(stream) = session.streams.borrow_mut().get_mut(&stream) {
                        stream.pieces = Some(rest);
                    }
                    Answer::Piece(bytes)
                }
                Ok(None) => {
                    drop(session.streams.borrow_mut().remove(&stream).map(|stream| stream.permit));
                    Answer::End
                }
                Err(error) => Answer::Refused(replica::refusal(&error)),
            }
        });
    }
}
