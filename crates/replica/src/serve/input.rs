use std::collections::VecDeque;
use std::io;

use bytes::BytesMut;

use crate::bounds::SESSION_OWN_BYTES;
use crate::wire::{Request, frame_bytes, take_frame};

/// The most that is read at once. If a connection has to wait, this much of its input may be there.
const READ_BYTES_MAX: usize = SESSION_OWN_BYTES / 2;
/// What it is worth to be read for.
const READ_BYTES_MIN: usize = 4 << 10;
/// A greeting names every node of a cluster once. Before it, nothing longer is accepted.
const GREETING_BYTES_MAX: usize = 24 << 10;

/// A request that has come.
pub(super) struct Next {
    pub(super) number: u32,
    pub(super) request: Request,
    /// How many bytes it took.
    pub(super) bytes: usize,
}

/// Requests that have come, and wait for their turn.
#[derive(Default)]
pub(super) struct Waiting {
    requests: VecDeque<Next>,
    /// How long their frames were. What waits keeps all of its frame in memory.
    bytes: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// What they hold of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn next(&mut self) -> Option<Next> {
        let next = self.requests.pop_front()?;
        if self.requests.is_empty() {
            self.bytes = 0;
        }
        Some(next)
    }

    /// Puts one back that there is no room for.
    pub(super) fn put_back(&mut self, next: Next) {
        self.bytes = self.bytes.max(next.bytes);
        self.requests.push_front(next);
    }
}

/// Takes the next frame off the input, once it is complete, and lets its requests wait. Answers whether there was one.
pub(super) fn take(input: &mut BytesMut, has_greeted: bool, waiting: &mut Waiting) -> io::Result<bool> {
    if let Some(bytes) = frame_bytes(input).filter(|bytes| !has_greeted && *bytes > GREETING_BYTES_MAX) {
        let line =
            format!("a frame of {bytes} bytes, expected a greeting of at most {GREETING_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, line));
    }
    let before = input.len();
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let Some(frame) = take_frame(input).map_err(invalid)? else { return Ok(false) };
    waiting.bytes += before - input.len();
    let queue = &mut waiting.requests;
    Request::all_of(&frame, |number, request, bytes| queue.push_back(Next { number, request, bytes }))
        .map_err(invalid)?;
    Ok(true)
}

/// How many bytes may be read into the input, behind an incomplete frame; `None` if there is no room. The buffer grows to twice
/// what has arrived, whatever length the frame announces.
///
/// `reserve` asks for room for so many bytes of input, and `left` is how many it may have.
pub(super) fn room(
    input: &mut BytesMut,
    reserve: impl Fn(usize) -> bool,
    left: impl Fn() -> usize,
) -> Option<usize> {
    let length = input.len();
    let Some(frame_bytes) = frame_bytes(input) else {
        return reserve(length + READ_BYTES_MIN).then(|| (left() - length).min(READ_BYTES_MAX));
    };
    let capacity = frame_bytes.min((2 * length).max(READ_BYTES_MIN));
    if !reserve(capacity.max(input.capacity())) {
        return None;
    }
    if input.capacity() < capacity {
        // By hand: what grows by itself becomes twice as long as a frame.
        let mut longer = BytesMut::with_capacity(capacity);
        longer.extend_from_slice(input);
        *input = longer;
    }
    Some((capacity - length).min(READ_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FRAME_BYTES_MAX;

    #[test]
    fn a_buffer_grows_as_bytes_arrive_and_not_as_they_are_announced() {
        let mut input = BytesMut::from(&(FRAME_BYTES_MAX as u32).to_le_bytes()[..]);
        input.extend_from_slice(&[0; 4]);
        let whole = frame_bytes(&input).expect("a length");
        while input.len() < whole {
            let room = room(&mut input, |_| true, || 1 << 20).expect("room");
            assert!(room > 0 && input.len() + room <= whole);
            assert!(input.capacity() <= (2 * input.len()).max(READ_BYTES_MIN), "{}", input.capacity());
            // One byte at a time as well as all that there is room for.
            let count = if input.len() < 10_000 { 1 } else { room };
            input.extend_from_slice(&vec![0; count]);
        }
        assert_eq!(input.capacity(), whole);
    }

    #[test]
    fn nothing_is_read_where_there_is_no_room() {
        let mut input = BytesMut::new();
        assert_eq!(room(&mut input, |_| false, || 0), None);
        assert_eq!(room(&mut input, |_| true, || 10_000), Some(10_000));
        assert_eq!(room(&mut input, |_| true, || 1 << 20), Some(READ_BYTES_MAX));
    }

    #[test]
    fn who_has_not_greeted_may_not_send_much() {
        let mut input = BytesMut::from(&(GREETING_BYTES_MAX as u32).to_le_bytes()[..]);
        input.extend_from_slice(&[0; 4]);
        let mut waiting = Waiting::default();
        let error = take(&mut input, false, &mut waiting).expect_err("too long for a greeting");
        assert!(error.to_string().contains("expected a greeting of at most 24576 bytes"), "{error}");
        assert!(matches!(take(&mut input, true, &mut waiting), Ok(false)));
        assert!(waiting.is_empty() && waiting.bytes() == 0);
    }
}
