use std::io::{self, BufRead, ErrorKind};
use std::ops::Range;

use super::{Asked, Event, Head, Reader};

/// Reads answers from a blocking stream, one after the other. Its calls for each answer: `head (piece* | next_chunk*)`.
#[derive(Debug)]
pub struct Answers<R> {
    from: R,
    /// Bytes of the stream's buffer that were given and are still in it.
    given: usize,
    reader: Reader,
    asked: Asked,
}

/// An event, without what it borrows.
enum Progress {
    Head(Head<Vec<u8>>),
    /// In the stream's buffer.
    Body(Range<usize>),
    ChunkEnd,
    End,
}

impl<R: BufRead> Answers<R> {
    /// Reads answers from `from`.
    pub fn new(from: R) -> Self {
        Self { from, given: 0, reader: Reader::default(), asked: Asked::Ordinary }
    }

    /// The stream: to write requests, or to read what is not an answer.
    pub fn stream(&mut self) -> &mut R {
        self.from.consume(std::mem::take(&mut self.given));
        &mut self.from
    }

    /// The head of the next answer. It passes over interim answers.
    pub fn head(&mut self, asked: Asked) -> io::Result<Head<Vec<u8>>> {
        loop {
            let head = self.any_head(asked)?;
            if head.status >= 200 || head.status == 101 {
                return Ok(head);
            }
        }
    }

    /// The next head, also that of an interim answer.
    pub fn any_head(&mut self, asked: Asked) -> io::Result<Head<Vec<u8>>> {
        self.asked = asked;
        let progress = match self.advance()? {
            Progress::End => self.advance()?, // Of the answer before it, which had no body to be read.
            progress => progress,
        };
        match progress {
            Progress::Head(head) => Ok(head),
            _ => Err(io::Error::new(ErrorKind::InvalidInput, "the body before this head was not read")),
        }
    }

    /// The next piece of the body; `None` at its end.
    pub fn piece(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            match self.advance()? {
                Progress::Body(range) => return Ok(Some(&self.from.fill_buf()?[range])),
                Progress::End => return Ok(None),
                Progress::Head(_) | Progress::ChunkEnd => {}
            }
        }
    }

    /// Appends the rest of the body.
    pub fn read_body(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        while let Some(piece) = self.piece()? {
            body.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Reads the next chunk into `chunk`; false at the end of the answer. It is an error if the body is not chunked, or the chunk has more
    /// bytes than this.
    pub fn next_chunk(&mut self, chunk: &mut Vec<u8>, bytes_max: usize) -> io::Result<bool> {
        if !self.reader.is_in_chunks() {
            return Err(io::Error::new(ErrorKind::InvalidData, "the answer is not chunked"));
        }
        chunk.clear();
        loop {
            match self.advance()? {
                Progress::Body(range) if chunk.len() + range.len() > bytes_max => {
                    let what = format!("a chunk has more than {bytes_max} bytes");
                    return Err(io::Error::new(ErrorKind::InvalidData, what));
                }
                Progress::Body(range) => chunk.extend_from_slice(&self.from.fill_buf()?[range]),
                Progress::ChunkEnd => return Ok(true),
                Progress::End => return Ok(false),
                Progress::Head(_) => {}
            }
        }
    }

    /// Up to the next event. It reads only if it needs more bytes: an answer can end without another one.
    fn advance(&mut self) -> io::Result<Progress> {
        self.from.consume(std::mem::take(&mut self.given));
        let (_, event) = self.reader.next(&[], self.asked)?;
        if let Event::End(_) = event {
            return Ok(Progress::End);
        }
        loop {
            let input = match self.from.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                input => input?,
            };
            if input.is_empty() {
                let end = self.reader.end_of_input().ok_or(ErrorKind::UnexpectedEof);
                return Ok(end.map(|_| Progress::End)?);
            }
            let (taken, event) = self.reader.next(input, self.asked)?;
            let progress = match event {
                Event::More => None,
                Event::Interim(head) | Event::Head(head) => Some(Progress::Head(head.with_own_bytes())),
                Event::Body(piece) => Some(Progress::Body(taken - piece.len()..taken)),
                Event::ChunkEnd => Some(Progress::ChunkEnd),
                Event::End(_) => Some(Progress::End),
            };
            if let Some(progress) = progress {
                self.given = taken;
                return Ok(progress);
            }
            self.from.consume(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Length;

    fn chunks(bytes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut answers = Answers::new(bytes);
        assert_eq!(answers.head(Asked::Ordinary)?.status, 200);
        let (mut chunk, mut chunks) = (Vec::new(), Vec::new());
        while answers.next_chunk(&mut chunk, 16)? {
            chunks.push(chunk.clone());
        }
        assert!(answers.stream().is_empty(), "all of it was read");
        Ok(chunks)
    }

    /// It was held in memory, however long it was.
    #[test]
    fn a_chunk_that_is_too_long_is_refused() {
        let of = |bytes: &[u8]| {
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            chunks(&[head, bytes, b"\r\n0\r\n\r\n"].concat())
        };
        assert_eq!(of(b"10\r\n0123456789abcdef").expect("chunks"), [b"0123456789abcdef".to_vec()]);
        let refused = of(b"11\r\n0123456789abcdefg").expect_err("a chunk of 17 bytes");
        assert_eq!(refused.to_string(), "a chunk has more than 16 bytes");
    }

    #[test]
    fn chunks_are_told_apart() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
        let of = |body: &str| chunks(format!("{head}{body}").as_bytes());
        let found = of("3\r\na\nb\r\nA;x\r\n0123456789\r\n0\r\n\r\n").expect("chunks");
        assert_eq!(found, [b"a\nb".to_vec(), b"0123456789".to_vec()]);
        assert!(of("").is_err(), "cut off");
        assert!(of("3\r\nab").is_err());
        assert!(of("3\r\nabcd\r\n").is_err());
        assert!(chunks(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err());
    }

    #[test]
    fn answers_follow_each_other_with_and_without_bodies() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nnone\n\
            HTTP/1.1 204 No Content\r\nx-a: 1\r\n\r\nHTTP/1.1 200 OK\r\n\r\nuntil the end";
        let mut answers = Answers::new(&bytes[..]);
        let mut read = || {
            let head = answers.head(Asked::Ordinary)?;
            let mut body = Vec::new();
            answers.read_body(&mut body)?;
            Ok::<_, io::Error>((head, body))
        };
        let (head, body) = read().expect("an answer");
        assert_eq!((head.status, head.length, &body[..]), (404, Length::Known(5), &b"none\n"[..]));
        let (head, body) = read().expect("an answer");
        assert_eq!((head.status, head.header("X-A"), &body[..]), (204, Some(&b"1"[..]), &b""[..]));
        let (head, body) = read().expect("an answer");
        assert_eq!((head.status, head.keep_alive, &body[..]), (200, false, &b"until the end"[..]));
        assert_eq!(read().map_err(|error| error.kind()), Err(ErrorKind::UnexpectedEof));
    }

    #[test]
    fn what_is_no_answer_is_told_from_one_that_broke_off() {
        let kind = |bytes: &[u8]| Answers::new(bytes).head(Asked::Ordinary).map_err(|error| error.kind());
        assert_eq!(kind(b"nonsense\r\n\r\n"), Err(ErrorKind::InvalidData));
        assert_eq!(kind(b"HTTP/1.1 200 OK\r\n"), Err(ErrorKind::UnexpectedEof));
    }
}
