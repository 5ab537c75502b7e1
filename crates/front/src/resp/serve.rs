use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;

use ladoga_resp::{Dialect, ProtocolError, Reply, Request, Step};
use ladoga_runtime::CommandKind;
use ladoga_service::KeyValue;
use ladoga_tls::Failure;

use super::ahead::Ahead;
use super::call::StoreCall;
use super::door::RespDoor;
use super::failed::Failed;
use super::in_flight::{Begun, InFlight};
use super::link::RespLink;
use super::measured::{Measured, value_bytes};
use super::request_room::RequestRoom;
use super::served::Served;
use super::session::{Session, Told};
use super::table::{Command, Verb};
use super::waits::Interruption;
use super::{audited, dispatch};
use crate::connection::{Departure, yield_once};

/// Requests that are served before other connections have their turn, if all have arrived at once.
const TURN_REQUESTS_MAX: u32 = 64;

const HTTP: &str = "this port speaks the protocol of Redis, and this is HTTP; the connection is closed";

/// How a connection ends.
pub(super) enum Parting {
    /// Everything is said.
    Over,
    /// With this reply, while the client may still be speaking.
    Say(Reply),
    /// Without one: there is nobody who listens.
    Drop,
    /// So that the client notices that something is missing.
    Abort,
    /// It goes on at another event loop.
    Move(Departure),
}

impl From<io::Error> for Parting {
    fn from(error: io::Error) -> Parting {
        tracing::debug!(%error, "a connection broke");
        Parting::Drop
    }
}

/// What a connection is told that is not served.
pub(crate) fn refusal(bound: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Reply::error(format_args!("max number of clients reached: {bound}"))
        .write(&mut bytes, Dialect::default());
    bytes
}

/// Serves a connection until it ends, or goes on at another event loop, with what it has been told.
pub(crate) async fn serve<K: KeyValue>(
    door: &Rc<RespDoor<K>>,
    link: &Rc<RespLink>,
) -> Option<(Departure, Told)> {
    let nodes = door.door.nodes;
    let session = match link.take_told() {
        Some(told) => Session::of(told, nodes),
        None => Session::new(door.next_id(), nodes, door.now_ms()),
    };
    let mut conversation = Conversation {
        session,
        door,
        link,
        in_flight: InFlight::new(),
        ahead: Ahead::new(),
        room: None,
        served: 0,
    };
    // Boxed, so that connections without TLS are no larger for it.
    let tls = door.door.access.tls.as_ref().filter(|_| !link.is_secure());
    let handshake = tls.map(|tls| Box::pin(link.shake_hands(tls, &door.door.handshakes)));
    let failed = match handshake {
        Some(handshake) => handshake.await.err(),
        None => None,
    };
    let parting = match failed {
        Some(Failure::NotTls) => {
            Parting::Say(Reply::error("this port speaks TLS, and this is plain text; expected rediss://"))
        }
        Some(_) => Parting::Drop,
        None => match link.ending.unless_ended(conversation.converse()).await {
            Ok(Err(parting)) => parting,
            Ok(Ok(())) => Parting::Over,
            Err(Interruption::Late) => {
                Parting::Say(Reply::error("the request did not arrive in time, the connection is closed"))
            }
            Err(Interruption::CutOff) => {
                door.door.core.metrics.cut_off();
                Parting::Abort
            }
            Err(Interruption::Displaced(taken)) => {
                door.door.core.metrics.displaced(taken);
                door.door.core.metrics.cut_off();
                Parting::Abort
            }
        },
    };
    conversation.settle();
    let dialect = conversation.session.dialect;
    let is_interrupted = matches!(parting, Parting::Say(_));
    match parting {
        Parting::Move(departure) => return Some((departure, conversation.session.told())),
        Parting::Drop => return None,
        Parting::Abort => {
            link.abort_on_drop();
            return None;
        }
        Parting::Say(reply) => reply.write(&mut link.buffers().output, dialect),
        Parting::Over => {}
    }
    // What the client still says is waited for without anything that others may need.
    let caller = conversation.session.caller.take();
    drop(conversation);
    let may_be_speaking = link.begins_to_linger() || is_interrupted;
    // However that ends, the connection does.
    let _ = link.ending.unless_ended(link.linger(may_be_speaking)).await;
    link.settle(caller.as_ref());
    None
}

/// A connection while it is served.
pub(super) struct Conversation<'c, K> {
    pub(super) door: &'c Rc<RespDoor<K>>,
    pub(super) link: &'c Rc<RespLink>,
    pub(super) session: Session,
    pub(super) in_flight: InFlight,
    ahead: Ahead,
    /// What the request that arrives takes of the memory for values, if it is long.
    pub(super) room: Option<Rc<RequestRoom>>,
    served: u32,
}

impl<K: KeyValue> Conversation<'_, K> {
    /// Serves one request after the other. What has arrived together is answered together.
    async fn converse(&mut self) -> Result<(), Parting> {
        loop {
            match self.next_step() {
                Ok(Step::Request(request)) => {
                    if self.in_flight.is_empty() {
                        self.ahead.meet_others((self.door, self.link), &request).await;
                    }
                    self.take(request).await?;
                }
                Ok(Step::Large { bytes }) => self.take_large(bytes).await?,
                Ok(Step::Incomplete { bytes }) => {
                    self.answer_all().await?;
                    self.settle();
                    self.link.flush().await?;
                    if self.is_over() {
                        return Ok(());
                    }
                    self.link.stays.set(!self.session.can_move());
                    if self.is_to_move()
                        && let Some(departure) = self.link.departing()
                    {
                        return Err(Parting::Move(departure));
                    }
                    let made = self.make_room(bytes as u64).await;
                    made.map_err(|failed| self.refuse_arriving(failed))?;
                    self.receive().await?;
                }
                Err(error) => {
                    self.answer_all().await?;
                    return Err(Parting::Say(Reply::error(error)));
                }
            }
        }
    }

    /// What the bytes that have arrived come to next.
    fn next_step(&mut self) -> Result<Step, ProtocolError> {
        let buffers = &mut *self.link.buffers();
        let door = self.door;
        let limits = buffers.parser.limits_mut();
        // Only those who were let in may have others wait for memory.
        limits.is_of_stranger = !self.is_known();
        if limits.large_bytes_min == u64::MAX {
            // The store was not open yet.
            limits.large_bytes_min = door.large_bytes_min();
        }
        self.ahead.next(&mut buffers.parser, &mut buffers.input, |keys| {
            if let Ok(service) = door.service() {
                service.fetch_ahead(keys);
            }
        })
    }

    /// Whether no other request is to come.
    pub(super) fn is_over(&self) -> bool {
        let is_drained = self.link.is_to_end() && (self.served > 0 || !self.link_is_late());
        self.link.buffers().has_ended || (is_drained && !self.link.buffers().parser.is_within_request())
    }

    /// Whether it is to go on at another event loop, and can now.
    pub(super) fn is_to_move(&self) -> bool {
        self.link.is_to_move() && self.session.can_move() && !self.link.is_to_end()
    }

    fn link_is_late(&self) -> bool {
        ladoga_server::Connection::is_late(&**self.link)
    }

    /// Has a request served, behind all that have to be answered before.
    async fn take(&mut self, request: Request) -> Result<(), Parting> {
        self.link.serves();
        // It goes with the request. Those behind it have their own.
        let room = self.room_in_turn();
        self.room = None;
        if dispatch::is_of_http(&request) {
            self.answer_all().await?;
            return Err(Parting::Say(Reply::error(HTTP)));
        }
        self.served = self.served.wrapping_add(1);
        if self.served.is_multiple_of(TURN_REQUESTS_MAX) {
            yield_once().await;
        }
        let started_ns = self.door.door.core.clock.monotonic_ns();
        let command = match dispatch::command(&request) {
            Ok(command) => command,
            Err(reply) => {
                let reply = self.session.transaction.misunderstand(&request, reply);
                return self.reply_alone(reply.into(), Measured::unknown(started_ns)).await;
            }
        };
        if let Err(reply) = self.authorize(command, &request) {
            let reply = self.session.transaction.refuse(command.verb, &request, reply);
            return self.reply_alone(reply.into(), Measured::of(command, started_ns)).await;
        }
        self.door.door.core.metrics.received(value_bytes(command.verb, &request));
        let measured = Measured::of_keys(&self.door.door.core, command, &request, started_ns);
        if self.session.transaction.takes(command) {
            // What it had while it arrived, it has as something queued from here on.
            drop(room);
            let reply = self.session.transaction.queue(command, &request, &self.link.held);
            let queued = Measured { kind: CommandKind::Other, ..measured };
            return self.reply_alone(reply.into(), queued).await;
        }
        if command.is_of_session {
            self.answer_all().await?;
            let served = self.serve_session(command, request).await?;
            return self.write_measured(served, measured).await;
        }
        self.serve_by_store((command, &room), request, measured).await?;
        if self.room.is_none() && Rc::strong_count(&room) == 1 {
            // Its request is over: the next one can have it.
            room.give_back();
            self.room = Some(room);
        }
        Ok(())
    }

    async fn serve_by_store(
        &mut self,
        (command, room): (&'static Command, &Rc<RequestRoom>),
        request: Request,
        mut measured: Measured,
    ) -> Result<(), Parting> {
        let claim = dispatch::claim(command, &request, &self.door.door);
        let expected = &self.link.held.expected;
        while !self.in_flight.admits(&claim, expected.reads_max()) {
            self.answer_first().await?;
        }
        // It has begun alone, then.
        let has_many_values = command.verb == Verb::MGet && claim.reads > expected.reads_max();
        let mut call = match self.call(Rc::clone(room)).await? {
            Ok(call) => call,
            Err(failed) => {
                return self.reply_alone(failed.into_reply().into(), measured).await;
            }
        };
        call.trace = measured.trace(call.replicas);
        if has_many_values {
            let served = self.write_values(&call, &request).await?;
            return self.write_measured(served, measured).await;
        }
        let unordered = self.unordered(&call);
        let audited = self.audited(command, &request);
        let begun = dispatch::begin(&call, command, request);
        match audited::follow(audited, begun) {
            Begun::Served(served) if self.in_flight.is_empty() => self.write_measured(served, measured).await,
            Begun::Served(served) => {
                self.in_flight.push(served, measured);
                Ok(())
            }
            Begun::Serving(serving) => {
                let mut serving = Some((claim, serving, measured));
                poll_fn(|context| {
                    if let Some((claim, serving, measured)) = serving.take() {
                        self.in_flight.begin(claim, serving, measured, context);
                    }
                    Poll::Ready(())
                })
                .await;
                if self.unordered(&call) > unordered {
                    // It waits before it has its place among others: nothing may come before it.
                    self.answer_all().await?;
                }
                Ok(())
            }
        }
    }

    /// How many requests of the event loop have begun and have no place yet.
    fn unordered(&self, call: &StoreCall<K>) -> u64 {
        call.service.unordered_writes() + self.door.paused.get()
    }

    /// What a command needs to ask the store, with this room for what it reads; waits until the service can answer.
    pub(super) async fn call(
        &mut self,
        room: Rc<RequestRoom>,
    ) -> Result<Result<StoreCall<K>, Failed>, Parting> {
        let service = match self.door.service() {
            Ok(service) => Rc::clone(service),
            Err(error) => return Ok(Err(error.into())),
        };
        let mut waited_ms = 0;
        if let Some(ready) = service.until_ready() {
            self.answer_all().await?;
            self.link.flush().await?;
            match ready.await {
                Ok(waited) => waited_ms = waited,
                Err(error) => return Ok(Err(error.into())),
            }
        }
        Ok(Ok(StoreCall::new(
            Rc::clone(self.door),
            service,
            (self.session.replicas, waited_ms),
            (Rc::clone(&self.link.held), room),
        )))
    }

    /// Replies behind all that come before.
    async fn reply_alone(&mut self, served: Served, measured: Measured) -> Result<(), Parting> {
        self.answer_all().await?;
        self.write_measured(served, measured).await
    }

    /// Writes the replies to all requests that are served.
    pub(super) async fn answer_all(&mut self) -> Result<(), Parting> {
        while !self.in_flight.is_empty() {
            self.answer_first().await?;
        }
        Ok(())
    }

    /// Waits for the first of the replies. Those before do not wait for it.
    async fn answer_first(&mut self) -> Result<(), Parting> {
        let first = poll_fn(|context| {
            let first = self.in_flight.poll_first(context);
            if first.is_pending() {
                // What is wrong with writing shows when this one is answered.
                let _ = self.link.poll_flush(context);
            }
            first
        });
        let first = first.await;
        self.link.held.rest(0);
        match first {
            Some((served, measured)) => self.write_measured(served, measured).await,
            None => Ok(()),
        }
    }

    pub(super) async fn write_measured(&mut self, served: Served, measured: Measured) -> Result<(), Parting> {
        measured.end(&self.door.door, served.is_error());
        self.write(served).await
    }
}
