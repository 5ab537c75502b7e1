use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use xxhash_rust::xxh3::xxh3_64;

use super::operation::LineServing;
use crate::connection::Link;
use crate::http::{BatchAction, BatchOperation, LineAnswer};

/// So many lines are served at the same time.
const LINES_MAX: usize = 64;
/// Lines begin as long as those that are served, and answers that wait for others, take less memory than this.
const LINES_BYTES_MAX: u64 = 256 << 10;
/// What a read is expected to find as long as none has found anything.
const READ_BYTES_DEFAULT: u64 = 16 << 10;
const READ_BYTES_MIN: u64 = 256;

/// Lines that are served, and those that are and wait for others to be answered before them.
pub(super) struct Window {
    lines: VecDeque<BegunLine>,
    /// What they take of memory.
    bytes: u64,
    /// The most that a read has found.
    read_bytes: u64,
}

/// What a line is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject {
    key_hash: u64,
    is_read: bool,
    /// Of its value.
    bytes: u64,
}

struct BegunLine {
    subject: Option<Subject>,
    bytes: u64,
    state: LineState,
}

enum LineState {
    Serving(LineServing),
    Served(LineAnswer),
}

impl Subject {
    pub(super) fn of(operation: &BatchOperation) -> Subject {
        let bytes = match &operation.action {
            BatchAction::Put { value, .. } => value.len() as u64,
            BatchAction::Get(_) | BatchAction::Delete(_) | BatchAction::Increment { .. } => 0,
        };
        let is_read = matches!(operation.action, BatchAction::Get(_));
        Subject { key_hash: xxh3_64(&operation.key), is_read, bytes }
    }

    /// Whether it may be served at the same time as another one. Keys with the same hash count as one.
    const fn goes_with(self, other: Subject) -> bool {
        self.key_hash != other.key_hash || (self.is_read && other.is_read)
    }
}

impl Window {
    pub(super) const fn new() -> Window {
        Window { lines: VecDeque::new(), bytes: 0, read_bytes: READ_BYTES_DEFAULT }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether another line may begin, whatever it is about.
    pub(super) fn has_room(&self) -> bool {
        self.lines.len() < LINES_MAX && self.bytes < LINES_BYTES_MAX
    }

    /// Whether a line may begin now: those of one key take effect in their order, and see each other.
    pub(super) fn admits(&self, subject: Subject) -> bool {
        self.lines.iter().all(|line| match (&line.state, line.subject) {
            (LineState::Serving(_), Some(other)) => subject.goes_with(other),
            _ => true,
        })
    }

    /// A line begins: it is polled at once, so that lines begin in their order.
    pub(super) fn begin(&mut self, subject: Subject, serving: LineServing, context: &mut Context<'_>) {
        let bytes = if subject.is_read { self.read_bytes } else { subject.bytes };
        self.bytes += bytes;
        self.lines.push_back(BegunLine { subject: Some(subject), bytes, state: LineState::Serving(serving) });
        if let Some(line) = self.lines.back_mut() {
            advance(line, &mut self.bytes, &mut self.read_bytes, context);
        }
    }

    /// A line is answered that need not be served, or was at once.
    pub(super) fn push(&mut self, answer: LineAnswer) {
        let bytes = answer.bytes();
        self.bytes += bytes;
        self.lines.push_back(BegunLine { subject: None, bytes, state: LineState::Served(answer) });
    }

    fn advance(&mut self, context: &mut Context<'_>) {
        for line in &mut self.lines {
            advance(line, &mut self.bytes, &mut self.read_bytes, context);
        }
    }

    /// Goes on with all lines until this is ready. What they take is counted while the client does not take it.
    pub(super) async fn advance_until<T>(&mut self, link: &Link, ready: impl Future<Output = T>) -> T {
        let mut ready = pin!(ready);
        poll_fn(|context| {
            self.advance_counted(link, context);
            ready.as_mut().poll(context)
        })
        .await
    }

    /// Goes on with all lines. Reads that have begun may find much more than those before them: what is not in the place of a batch is
    /// counted while the client does not take it.
    pub(super) fn advance_counted(&mut self, link: &Link, context: &mut Context<'_>) {
        self.advance(context);
        link.unread.hold_beside(self.bytes_above_max());
    }

    const fn bytes_above_max(&self) -> u64 {
        self.bytes.saturating_sub(LINES_BYTES_MAX)
    }

    /// The answer to the first line, if it is there.
    pub(super) fn take_first(&mut self) -> Option<LineAnswer> {
        let BegunLine { state: LineState::Served(_), .. } = self.lines.front()? else { return None };
        let BegunLine { bytes, state, .. } = self.lines.pop_front()?;
        self.bytes -= bytes;
        match state {
            LineState::Served(answer) => Some(answer),
            LineState::Serving(_) => unreachable!("the first is served"),
        }
    }
}

fn advance(line: &mut BegunLine, bytes: &mut u64, read_bytes: &mut u64, context: &mut Context<'_>) {
    let LineState::Serving(serving) = &mut line.state else { return };
    let Poll::Ready(answer) = serving.as_mut().poll(context) else { return };
    let answer_bytes = answer.bytes();
    if line.subject.is_some_and(|subject| subject.is_read) {
        *read_bytes =
            answer_bytes.max(if *read_bytes == READ_BYTES_DEFAULT { READ_BYTES_MIN } else { *read_bytes });
    }
    *bytes = *bytes - line.bytes + answer_bytes;
    (line.bytes, line.state) = (answer_bytes, LineState::Served(answer));
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::task::Waker;

    use bytes::Bytes;
    use ladoga_http1::StatusCode;
    use ladoga_model::{Stamp, Version};

    use super::*;

    fn subject(line: &str) -> Subject {
        Subject::of(&BatchOperation::parse(line.as_bytes()).expect("an operation"))
    }

    fn get(key: &str) -> Subject {
        subject(&format!("{{\"op\":\"get\",\"key\":\"{key}\"}}"))
    }

    fn put(key: &str, bytes: usize) -> Subject {
        let value = "v".repeat(bytes);
        subject(&format!("{{\"op\":\"put\",\"key\":\"{key}\",\"value\":\"{value}\"}}"))
    }

    fn answer(status: u16, bytes: usize) -> LineAnswer {
        let status = StatusCode::from_u16(status).expect("a status");
        if bytes == 0 {
            return LineAnswer::empty(status);
        }
        LineAnswer::value(Stamp::new(Version { timestamp: 1, node: 0 }), Bytes::from(vec![7; bytes]))
    }

    /// A line that ends when it is told.
    type Told = Rc<RefCell<Option<LineAnswer>>>;

    fn serving(told: &Told) -> LineServing {
        let told = Rc::clone(told);
        Box::pin(poll_fn(move |_| told.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)))
    }

    #[test]
    fn lines_are_answered_in_their_order() {
        let mut context = Context::from_waker(Waker::noop());
        let mut window = Window::new();
        let told: Vec<Told> = (0..3).map(|_| Told::default()).collect();
        for (key, told) in ["a", "b", "c"].into_iter().zip(&told) {
            window.begin(put(key, 10), serving(told), &mut context);
        }
        window.push(answer(400, 0));
        *told[1].borrow_mut() = Some(answer(201, 0));
        window.advance(&mut context);
        assert!(window.take_first().is_none());
        *told[0].borrow_mut() = Some(answer(412, 0));
        window.advance(&mut context);
        let first: Vec<u16> =
            std::iter::from_fn(|| window.take_first()).map(|a| a.status().as_u16()).collect();
        assert_eq!(first, [412, 201]);
        *told[2].borrow_mut() = Some(answer(202, 0));
        window.advance(&mut context);
        let rest: Vec<u16> =
            std::iter::from_fn(|| window.take_first()).map(|a| a.status().as_u16()).collect();
        assert_eq!((rest, window.is_empty(), window.bytes), (vec![202, 400], true, 0));
    }

    #[test]
    fn lines_of_one_key_wait_for_each_other_unless_they_read() {
        let mut context = Context::from_waker(Waker::noop());
        let mut window = Window::new();
        let told: Vec<Told> = (0..2).map(|_| Told::default()).collect();
        window.begin(get("a"), serving(&told[0]), &mut context);
        window.begin(put("b", 1), serving(&told[1]), &mut context);
        assert!(window.admits(get("a")) && !window.admits(put("a", 1)));
        assert!(!window.admits(get("b")) && !window.admits(put("b", 1)) && window.admits(get("c")));
        *told[1].borrow_mut() = Some(answer(201, 0));
        window.advance(&mut context);
        assert!(window.admits(get("b")), "it is served, though not answered");
    }

    #[test]
    fn what_is_served_at_a_time_is_bounded_in_lines_and_in_bytes() {
        let mut context = Context::from_waker(Waker::noop());
        let mut window = Window::new();
        let told: Vec<Told> = (0..LINES_MAX).map(|_| Told::default()).collect();
        let mut begun = 0;
        while window.has_room() {
            window.begin(get(&begun.to_string()), serving(&told[begun]), &mut context);
            begun += 1;
        }
        assert_eq!(begun as u64, LINES_BYTES_MAX / READ_BYTES_DEFAULT, "nobody knows how much they find");
        *told[0].borrow_mut() = Some(answer(200, 1_000));
        window.advance(&mut context);
        assert!(window.take_first().is_some() && window.has_room());
        assert_eq!(window.read_bytes, 1_000, "what the next ones are expected to find");
        let mut window = Window::new();
        for (number, told) in told.iter().enumerate() {
            assert!(window.has_room());
            window.begin(put(&number.to_string(), 1), serving(told), &mut context);
        }
        assert!(!window.has_room());
        let mut window = Window::new();
        window.begin(put("a", LINES_BYTES_MAX as usize), serving(&told[0]), &mut context);
        assert!(!window.has_room());
    }
}
