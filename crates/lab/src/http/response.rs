use ladoga_http1::answer::{Answer, Asked, Event, Head, Malformed, Reader};

/// The part of a body that is kept for a script's `response`; longer bodies are cut.
const CAPTURE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// More than this before an answer is no empty line.
const EMPTY_BYTES_MAX: usize = 64;

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
    /// Whether nothing of the next answer has come, and how many bytes of empty lines have come instead.
    is_between: bool,
    empty_bytes: usize,
}

impl ResponseParser {
    pub(crate) fn new(capture: bool) -> Self {
        let captured = capture.then(Captured::default);
        Self { reader: Reader::default(), captured, is_between: true, empty_bytes: 0 }
    }

    /// Forgets an answer that broke off.
    pub(crate) fn reset(&mut self) {
        self.reader.reset();
        self.begin();
    }

    fn begin(&mut self) {
        self.is_between = true;
        self.empty_bytes = 0;
    }

    /// Passes over empty lines before an answer: some servers end a body with one, and wrk's parser does the same. How many bytes they are.
    fn pass_over_empty_lines(&mut self, input: &[u8]) -> usize {
        let is_empty = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let room = EMPTY_BYTES_MAX - self.empty_bytes;
        let empty = input.iter().take(room).take_while(is_empty).count();
        self.empty_bytes += empty;
        self.is_between = empty == input.len();
        empty
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
        let mut at = if self.is_between { self.pass_over_empty_lines(input) } else { 0 };
        loop {
            let (taken, event) = self.reader.next(&input[at..], asked)?;
            at += taken;
            match (event, &mut self.captured) {
                (Event::More, _) => return Ok((at, None)),
                (Event::End(answer), _) => {
                    self.begin();
                    return Ok((at, Some(answer)));
                }
                (Event::Head(head), Some(captured)) => captured.begin(&head),
                (Event::Body(piece), Some(captured)) => captured.add(piece),
                _ => {}
            }
        }
    }

    /// The peer closed: the answer, if that was its end.
    pub(crate) fn end_of_input(&mut self) -> Option<Answer> {
        let answer = self.reader.end_of_input();
        if answer.is_some() {
            self.begin();
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_BODY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    /// The answer behind it was no HTTP.
    #[test]
    fn empty_lines_before_an_answer_are_passed_over() {
        let mut parser = ResponseParser::new(false);
        let answer = Answer { status: 200, keep_alive: true };
        let both = [NO_BODY, b"\r\n", NO_BODY].concat();
        assert_eq!(parser.advance(&both, false), Ok((NO_BODY.len(), Some(answer))));
        let rest = &both[NO_BODY.len()..];
        assert_eq!(parser.advance(rest, false), Ok((rest.len(), Some(answer))));
        // By itself, and cut in two.
        for empty in [&b"\r\n"[..], b"\r", b"\n", b"\n"] {
            assert_eq!(parser.advance(empty, false), Ok((empty.len(), None)));
        }
        // Not within a head that was cut.
        let (one, other) = NO_BODY.split_at(20);
        assert_eq!(parser.advance(one, false), Ok((one.len(), None)));
        assert_eq!(parser.advance(other, false), Ok((other.len(), Some(answer))));
        let endless = [b'\n'; EMPTY_BYTES_MAX + 1];
        assert!(parser.advance(&endless, false).is_err());
        parser.reset();
        assert_eq!(parser.advance(NO_BODY, false), Ok((NO_BODY.len(), Some(answer))));
    }

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
