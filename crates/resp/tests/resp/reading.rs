use bytes::BytesMut;
use ladoga_resp::{Parser, ParserLimits, Piece, ProtocolError, Request, Step};

/// Small ones, so that they are reached.
pub(crate) const LIMITS: ParserLimits = ParserLimits {
    arguments_max: 1_000,
    argument_bytes_max: 4_096,
    large_bytes_min: 512,
    request_bytes_max: 8_192,
    is_of_stranger: false,
};

/// A request as it was seen: its arguments.
pub(crate) type Seen = Vec<Vec<u8>>;

/// All requests in the pieces, and the error behind them, if there is one. Every other large argument is taken out.
///
/// # Panics
/// If the parser says that more has to arrive and then sees a request in less.
pub(crate) fn read<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<Seen>, Option<ProtocolError>) {
    let (mut parser, mut input, mut reader) = (Parser::new(LIMITS), BytesMut::new(), Reader::default());
    for piece in pieces {
        input.extend_from_slice(piece);
        if let Err(error) = reader.read(&mut parser, &mut input) {
            return (reader.seen, Some(error));
        }
    }
    (reader.seen, None)
}

#[derive(Default)]
struct Reader {
    seen: Vec<Seen>,
    /// Which argument is taken out, and what of it is there.
    taken: Option<(usize, Vec<u8>)>,
    is_streaming: bool,
    large: usize,
}

impl Reader {
    fn read(&mut self, parser: &mut Parser, input: &mut BytesMut) -> Result<(), ProtocolError> {
        loop {
            if self.is_streaming {
                match parser.next_piece(input) {
                    Piece::Incomplete => return Ok(()),
                    Piece::End => self.is_streaming = false,
                    Piece::Bytes(bytes) => {
                        let (_, value) = self.taken.as_mut().expect("one is taken out");
                        value.extend_from_slice(&bytes);
                    }
                }
                continue;
            }
            match parser.next(input)? {
                Step::Incomplete { bytes } => {
                    assert!(bytes > 0 && bytes <= LIMITS.request_bytes_max + 70_000, "{bytes} are wanted");
                    return Ok(());
                }
                Step::Request(request) => self.see(&request),
                Step::Large { bytes } => {
                    assert!((LIMITS.large_bytes_min..=LIMITS.argument_bytes_max).contains(&bytes));
                    self.large += 1;
                    let (number, of) = parser.progress();
                    assert!(number < of);
                    if self.large.is_multiple_of(2) || self.taken.is_some() {
                        parser.hold();
                    } else {
                        parser.stream(input);
                        (self.taken, self.is_streaming) = (Some((number, Vec::new())), true);
                    }
                }
            }
        }
    }

    fn see(&mut self, request: &Request) {
        let mut seen: Seen = (0..request.len()).map(|number| request[number].to_vec()).collect();
        for (number, argument) in seen.iter().enumerate() {
            assert_eq!(&request.bytes(number)[..], argument);
        }
        assert_eq!(request.get(request.len()), None);
        if let Some((number, value)) = self.taken.take() {
            assert!(seen[number].is_empty());
            seen[number] = value;
        }
        self.seen.push(seen);
    }
}
