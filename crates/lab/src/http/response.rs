use ladoga_http1::answer::{Answer, Asked, Event, Head, Malformed, Reader};

/// The part of a body that is kept for a script's `response`; longer bodies are cut.
const CAPTURE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Headers and body of an answer, for scripts that want to see them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Captured {
    fn begin(&mut self, head: &Head<&[u8]>) {
        self.headers.clear();
        self.body.clear();
        self.headers.extend(head.headers().map(|(name, value)| (name.to_vec(), value.to_vec())));
    }

    fn add(&mut self, piece: &[u8]) {
        let room = CAPTURE_BYTES_MAX - self.body.len().min(CAPTURE_BYTES_MAX);
        self.body.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

/// Counts whole answers, and captures them if a script wants to see them.
#[derive(Debug)]
pub(crate) struct ResponseParser {
    reader: Reader,
    captured: Option<Captured>,
}

impl ResponseParser {
    pub(crate) fn new(capture: bool) -> Self {
        Self { reader: Reader::default(), captured: capture.then(Captured::default) }
    }

    /// Forgets an answer that broke off.
    pub(crate) fn reset(&mut self) {
        self.reader.reset();
    }

    /// What was captured of the answer that was completed last.
    pub(crate) const fn captured(&self) -> Option<&Captured> {
        self.captured.as_ref()
    }

    /// Takes bytes up to the end of one answer: how many it took, and the answer if it is whole.
    pub(crate) fn advance(
        &mut self,
        input: &[u8],
        is_head: bool,
    ) -> Result<(usize, Option<Answer>), Malformed> {
        let asked = if is_head { Asked::Head } else { Asked::Ordinary };
        let mut at = 0;
        loop {
            let (taken, event) = self.reader.next(&input[at..], asked)?;
            at += taken;
            match (event, &mut self.captured) {
                (Event::More, _) => return Ok((at, None)),
                (Event::End(answer), _) => return Ok((at, Some(answer))),
                (Event::Head(head), Some(captured)) => captured.begin(&head),
                (Event::Body(piece), Some(captured)) => captured.add(piece),
                _ => {}
            }
        }
    }

    /// The peer closed: the answer, if that was its end.
    pub(crate) fn end_of_input(&mut self) -> Option<Answer> {
        self.reader.end_of_input()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_wants_to_see_is_captured() {
        let mut parser = ResponseParser::new(true);
        let bytes =
            b"HTTP/1.1 200 OK\r\nX-A:  b \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        let kept = Answer { status: 200, keep_alive: true };
        for round in 0..2 {
            assert_eq!(parser.advance(bytes, false), Ok((bytes.len(), Some(kept))), "round {round}");
            let captured = parser.captured().unwrap();
            assert_eq!(captured.body, b"hello");
            assert_eq!(captured.headers[0], (b"X-A".to_vec(), b"b".to_vec()));
            assert_eq!(captured.headers.len(), 2);
        }
    }
}
