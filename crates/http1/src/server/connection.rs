use bytes::{Bytes, BytesMut};
use http::{Method, Version};

use super::body::{BadBody, Body, Piece, WHOLE_BYTES_MAX};
use super::head::{BadRequest, HeadLimits, Request, take_request};
use super::reply::{CONTINUE, Persistence, ReplyHead, ReplyLength};
use super::timing::{Overdue, Phase, Timeouts, Timing};

/// What stays allocated for answers between two of them.
const OUTPUT_BYTES_KEPT: usize = 16 << 10;

/// What is known of a request while it is served.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is known of a request by itself")]
struct Turn {
    version: Version,
    is_head: bool,
    /// What is left of its body.
    body: Body,
    /// Whether the client waits for `100 Continue` before it sends that.
    waits_for_continue: bool,
    /// Whether another request may follow.
    keeps_alive: bool,
    /// Whether the head of its answer is written.
    has_begun_answer: bool,
    /// Whether a short body is taken as it arrives, too.
    takes_pieces: bool,
}

impl Turn {
    /// Before the first.
    const NONE: Turn = Turn {
        version: Version::HTTP_11,
        is_head: false,
        body: Body::NOTHING,
        waits_for_continue: false,
        keeps_alive: true,
        has_begun_answer: false,
        takes_pieces: false,
    };

    fn of(request: &Request) -> Turn {
        let body = Body::of(request.body);
        Turn {
            version: request.version,
            is_head: request.method == Method::HEAD,
            body,
            waits_for_continue: request.expects_continue && !body.is_over(),
            keeps_alive: request.keeps_alive,
            has_begun_answer: false,
            takes_pieces: false,
        }
    }
}

/// One connection of a server: every byte that arrives and every byte of a head that is sent passes here, in order.
///
/// The driver gives the time, in milliseconds.
#[derive(Debug)]
pub struct Connection {
    limits: HeadLimits,
    /// What has arrived and was not used.
    input: BytesMut,
    /// How many bytes of it were parsed for a head without finding its end.
    looked_bytes: usize,
    /// Whether the client has sent everything.
    has_ended: bool,
    /// The request that is served, or was.
    turn: Turn,
    /// The output that is not sent yet, and how much of it is sent.
    output: Vec<u8>,
    sent_bytes: usize,
    timing: Timing,
}

impl Connection {
    /// One on which nothing has arrived.
    pub fn new(limits: HeadLimits, now_ms: u64) -> Connection {
        Connection {
            limits,
            input: BytesMut::new(),
            looked_bytes: 0,
            has_ended: false,
            turn: Turn::NONE,
            output: Vec::new(),
            sent_bytes: 0,
            timing: Timing::new(now_ms),
        }
    }

    /// There is nothing to be read. A request begins with a part that cannot be read before more of it arrives; unless, once it can be, it
    /// turns out to bring nothing.
    pub fn wait(&mut self, has_part: bool, now_ms: impl FnOnce() -> u64) {
        let has_begun = has_part || self.has_begun_head();
        self.timing.wait(has_begun, now_ms);
    }

    /// Bytes arrived.
    pub fn receive(&mut self, bytes: &[u8], now_ms: impl FnOnce() -> u64) {
        self.input.extend_from_slice(bytes);
        self.timing.received(bytes.len(), now_ms);
    }

    /// Whether more has arrived than ends of lines, which begin no request.
    fn has_begun_head(&self) -> bool {
        self.input.iter().any(|byte| !matches!(byte, b'\r' | b'\n'))
    }

    /// The client sends nothing more.
    pub fn end_input(&mut self) {
        self.has_ended = true;
    }

    /// Whether something has arrived that no request was made of yet.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether nothing more is to be sent.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The next request, once its head is there. The one before has to be answered.
    ///
    /// After an error, nothing that arrives is understood.
    pub fn next_request(&mut self, now_ms: u64) -> Result<Option<Request>, BadRequest> {
        assert!(
            self.turn.body.is_over() && self.turn.keeps_alive,
            "the request before is over, and another may come"
        );
        let taken = take_request(&mut self.input, &mut self.looked_bytes, self.limits, self.has_ended);
        let Some(request) = taken? else {
            return if self.has_ended && !self.input.is_empty() {
                Err(BadRequest::Incomplete)
            } else {
                Ok(None)
            };
        };
        self.turn = Turn::of(&request);
        self.timing.enter(Phase::Serving, now_ms);
        Ok(Some(request))
    }

    /// From now on the body of the current request is waited for. A client that waits for `100 Continue` gets it.
    pub fn begin_body(&mut self, now_ms: u64) {
        self.timing.begin_body(now_ms);
        if std::mem::take(&mut self.turn.waits_for_continue) {
            self.output.extend_from_slice(CONTINUE);
        }
    }

    /// The same for a body of which each part is of use by itself, also of a short one.
    pub fn begin_body_in_pieces(&mut self, now_ms: u64) {
        self.begin_body(now_ms);
        self.turn.takes_pieces = true;
    }

    /// The body is not waited for while the server is busy with the part that has arrived.
    pub fn pause_body(&mut self, now_ms: u64) {
        self.timing.pause_body(now_ms);
    }

    /// The body is waited for again, unless all of it has arrived.
    pub fn resume_body(&mut self, now_ms: u64) {
        if !self.turn.body.is_over() {
            self.timing.resume_body(now_ms);
        }
    }

    /// The next piece of the body of the request in turn, once it is there. A short body is one piece, unless it was begun in
    /// pieces.
    pub fn next_piece(&mut self, now_ms: u64) -> Result<Option<Piece>, BadBody> {
        let Turn { body, takes_pieces, .. } = &mut self.turn;
        let piece =
            if *takes_pieces { body.next_arrived(&mut self.input)? } else { body.next(&mut self.input)? };
        if self.turn.body.is_over() && self.timing.phase() == Phase::Body {
            self.timing.enter(Phase::Serving, now_ms);
        }
        if piece.is_none() && self.has_ended { Err(BadBody::Incomplete) } else { Ok(piece) }
    }

    /// The body of the request in turn, if it is short and all of it is here: then nothing is to be waited for.
    pub fn take_arrived_body(&mut self) -> Option<Bytes> {
        let Body::Known(bytes) = self.turn.body else { return None };
        let is_here = bytes <= WHOLE_BYTES_MAX && self.input.len() as u64 >= bytes;
        if !is_here || self.turn.waits_for_continue {
            return None;
        }
        self.turn.body = Body::NOTHING;
        Some(self.input.split_to(bytes as usize).freeze())
    }

    /// How many bytes of the body the driver may read into memory of its own instead, because none have arrived here. It
    /// reports them by [`Connection::received_elsewhere`].
    pub fn elsewhere_bytes_max(&self) -> u64 {
        match self.turn.body {
            Body::Known(left) if self.input.is_empty() && left > WHOLE_BYTES_MAX => left,
            Body::Known(_) | Body::Chunked { .. } => 0,
        }
    }

    /// The driver has read these bytes of the body into memory of its own.
    pub fn received_elsewhere(&mut self, bytes: usize, now_ms: u64) {
        assert!(bytes as u64 <= self.elsewhere_bytes_max(), "no more than was allowed");
        if let Body::Known(left) = &mut self.turn.body {
            *left -= bytes as u64;
        }
        self.timing.received(bytes, || now_ms);
    }

    /// Discards what has arrived of the body of the current request. Answers how many bytes that were, and whether they were
    /// the rest of it.
    pub fn discard_body(&mut self) -> (usize, bool) {
        let before = self.input.len();
        let is_over = loop {
            match self.turn.body.next(&mut self.input) {
                Ok(Some(Piece::Bytes(_))) => {}
                Ok(Some(Piece::End)) => break true,
                Ok(None) | Err(_) => break false,
            }
        };
        (before - self.input.len(), is_over)
    }

    /// Whether there is nothing left of the body of the request in turn.
    pub fn has_whole_body(&self) -> bool {
        self.turn.body.is_over()
    }

    /// How much of the body of the current request is left, if that is known and the client sends it without `100 Continue`.
    pub fn unread_bytes(&self) -> Option<u64> {
        self.turn.body.known_bytes().filter(|_| !self.turn.waits_for_continue)
    }

    /// How much of the body of the current request has not arrived, if its length is known.
    pub fn missing_bytes(&self) -> Option<u64> {
        Some(self.turn.body.known_bytes()?.saturating_sub(self.input.len() as u64))
    }

    /// Whether the client is waited for, to send more of the body of the current request.
    pub fn is_waiting_for_body(&self) -> bool {
        self.timing.phase() == Phase::Body
    }

    /// Writes the head of the answer to the current request. If `is_last`, or if a part of the body is missing, the connection
    /// takes no other request, and the head says so.
    pub fn begin_answer(&mut self, head: &ReplyHead<'_>, is_last: bool) {
        self.begin_answer_early(head, is_last || !self.turn.body.is_over());
    }

    /// The same while the body is still arriving and goes on to be read. [`Connection::end_early_answer`] comes after the last bytes
    /// of the answer.
    pub fn begin_answer_early(&mut self, head: &ReplyHead<'_>, is_last: bool) {
        let is_new = self.turn.version == Version::HTTP_11;
        let has_end = is_new || head.length != ReplyLength::Unknown;
        self.turn.keeps_alive &= !is_last && has_end;
        self.turn.has_begun_answer = true;
        let persistence = match self.turn.keeps_alive {
            false => Persistence::Close,
            true if is_new => Persistence::Unsaid,
            true => Persistence::KeepAlive,
        };
        head.write(&mut self.output, is_new, persistence);
    }

    /// An answer that began early is complete. If a part of the body is missing, the connection takes no other request.
    pub fn end_early_answer(&mut self) {
        self.turn.keeps_alive &= self.turn.body.is_over();
    }

    /// Whether the answer to the current request has begun, so that it can get no other one.
    pub fn has_begun_answer(&self) -> bool {
        self.turn.has_begun_answer
    }

    /// Whether the answer in turn is one to HEAD, which has no body.
    pub fn has_no_body(&self) -> bool {
        self.turn.is_head
    }

    /// Whether the connection takes another request after the answer in turn.
    pub fn keeps_alive(&self) -> bool {
        self.turn.keeps_alive
    }

    /// Bytes of the answer in turn, behind its head, or of another protocol.
    pub fn send(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// What is to be sent now.
    pub fn unsent(&self) -> &[u8] {
        &self.output[self.sent_bytes..]
    }

    /// What its buffers take of memory.
    pub fn buffered_bytes(&self) -> u64 {
        (self.input.capacity() + self.output.capacity()) as u64
    }

    /// Some of [`Connection::unsent`] is sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        assert!(self.sent_bytes <= self.output.len(), "no more than there was");
        let is_all = self.sent_bytes == self.output.len();
        self.timing.sent(bytes, is_all);
        if is_all {
            self.sent_bytes = 0;
            self.output.clear();
            self.output.shrink_to(OUTPUT_BYTES_KEPT);
        }
    }

    /// Bytes are sent that the driver had in memory of its own: all there were, or some.
    pub fn sent_elsewhere(&mut self, bytes: usize, all: bool) {
        self.timing.sent(bytes, all);
    }

    /// The client does not take the output.
    pub fn blocked(&mut self, now_ms: u64) {
        self.timing.blocked(now_ms);
    }

    /// Whether the client is waited for, to take the output.
    pub fn is_blocked(&self) -> bool {
        self.timing.is_blocked()
    }

    /// The client took bytes that were written before, and there is no room for more yet.
    pub fn drained(&mut self, bytes: u64, now_ms: u64) {
        self.timing.drained(bytes, now_ms);
    }

    /// All answers are out, and the next request is waited for: from [`Connection::wait`] on, if a part of it is there.
    pub fn rest(&mut self, now_ms: u64) {
        if !matches!(self.timing.phase(), Phase::Idle | Phase::Head) {
            self.timing.enter(Phase::Idle, now_ms);
        }
    }

    /// Gives memory back on a connection that has not been used since the given time.
    pub fn give_back_if_idle(&mut self, since_ms: u64) {
        if self.timing.has_rested_since(since_ms) && self.input.is_empty() && self.output.is_empty() {
            (self.input, self.output) = (BytesMut::new(), Vec::new());
        }
    }

    /// Gives back the memory that nothing is in, in the middle of an answer that pauses.
    pub fn give_back(&mut self) {
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }

    /// Another protocol begins, behind the request in turn.
    pub fn upgrade(&mut self, now_ms: u64) {
        self.timing.enter(Phase::Upgraded, now_ms);
    }

    /// Whether another protocol has begun.
    pub fn is_upgraded(&self) -> bool {
        self.timing.phase() == Phase::Upgraded
    }

    /// What has arrived of another protocol.
    pub fn take_input(&mut self) -> BytesMut {
        assert!(self.is_upgraded(), "a head or a body may begin with it");
        std::mem::take(&mut self.input)
    }

    /// The last bytes are about to be sent, and nothing that arrives counts. Answers whether the client may be sending more.
    pub fn linger(&mut self, now_ms: u64) -> bool {
        self.timing.enter(Phase::Lingering, now_ms);
        let may_be_speaking = !self.turn.body.is_over() || !self.input.is_empty();
        self.input = BytesMut::new();
        may_be_speaking
    }

    /// Whether the last bytes have been written.
    pub fn is_lingering(&self) -> bool {
        self.timing.phase() == Phase::Lingering
    }

    /// Whether one side has kept the other waiting for too long.
    pub fn overdue(&self, now_ms: u64, timeouts: &Timeouts) -> Option<Overdue> {
        self.timing.overdue(now_ms, timeouts)
    }
}
