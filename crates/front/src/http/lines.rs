use bytes::{Buf, Bytes};
use memchr::memchr;

/// Cuts lines out of bytes that come in pieces. It keeps no more than one line and one piece.
#[derive(Debug)]
pub(crate) struct LineCutter {
    line_bytes_max: usize,
    /// What is left of the piece that came last.
    piece: Bytes,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// Whether what comes up to the next line end belongs to a line that is too long.
    is_skipping: bool,
}

/// A line without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CutLine {
    Whole(Bytes),
    /// It is longer than it may be; told as soon as that is known.
    TooLong,
}

impl LineCutter {
    pub(crate) const fn new(line_bytes_max: usize) -> LineCutter {
        LineCutter { line_bytes_max, piece: Bytes::new(), begun: Vec::new(), is_skipping: false }
    }

    /// More bytes, once [`LineCutter::next_line`] has nothing more of those before.
    pub(crate) fn push(&mut self, piece: Bytes) {
        assert!(self.piece.is_empty(), "the piece before is used up");
        self.piece = piece;
    }

    /// The next line, if its end has come.
    pub(crate) fn next_line(&mut self) -> Option<CutLine> {
        while !self.piece.is_empty() {
            let end = memchr(b'\n', &self.piece);
            let part = self.piece.split_to(end.unwrap_or(self.piece.len()));
            if end.is_some() {
                self.piece.advance(1);
            }
            if self.is_skipping {
                self.is_skipping = end.is_none();
            } else if self.begun.len() + part.len() > self.line_bytes_max {
                self.begun = Vec::new();
                self.is_skipping = end.is_none();
                return Some(CutLine::TooLong);
            } else if end.is_none() {
                self.begun.extend_from_slice(&part);
            } else if self.begun.is_empty() {
                return Some(CutLine::Whole(part));
            } else {
                let mut line = std::mem::take(&mut self.begun);
                line.extend_from_slice(&part);
                return Some(CutLine::Whole(Bytes::from(line)));
            }
        }
        None
    }

    /// The last line, if it has no end.
    pub(crate) fn last_line(&mut self) -> Option<CutLine> {
        assert!(self.piece.is_empty(), "lines with an end come first");
        let line = std::mem::take(&mut self.begun);
        (!line.is_empty()).then(|| CutLine::Whole(Bytes::from(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], step: usize) -> Vec<CutLine> {
        let (mut cutter, mut lines) = (LineCutter::new(5), Vec::new());
        for piece in bytes.chunks(step) {
            cutter.push(Bytes::copy_from_slice(piece));
            while let Some(line) = cutter.next_line() {
                lines.push(line);
            }
        }
        lines.extend(cutter.last_line());
        lines
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let whole = |line: &'static str| CutLine::Whole(Bytes::from(line));
        let cases: [(&str, Vec<CutLine>); 7] = [
            ("", vec![]),
            ("\n", vec![whole("")]),
            ("a", vec![whole("a")]),
            ("a\nbc\n", vec![whole("a"), whole("bc")]),
            ("a\r\n\n12345", vec![whole("a\r"), whole(""), whole("12345")]),
            ("12345\n123456\n\n1", vec![whole("12345"), CutLine::TooLong, whole(""), whole("1")]),
            ("1234567890123", vec![CutLine::TooLong]),
        ];
        for (text, expected) in cases {
            for step in 1..=text.len() + 1 {
                assert_eq!(lines(text.as_bytes(), step), expected, "{text:?} by {step}");
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_takes_no_memory() {
        let mut cutter = LineCutter::new(5);
        for _ in 0..100 {
            cutter.push(Bytes::from_static(b"0123456789"));
            while cutter.next_line().is_some() {}
            assert_eq!(cutter.begun.capacity(), 0);
        }
        cutter.push(Bytes::from_static(b"\nnext\n"));
        assert_eq!(cutter.next_line(), Some(CutLine::Whole(Bytes::from_static(b"next"))));
    }
}
