use super::super::Failure;
use super::super::batch::LINE_BYTES_MAX;
use super::super::patience::{Patience, SILENCE_MAX, Trouble};
use super::super::range::{LINES, Query};
use super::super::record::{BEGINNING_BYTES, key_and_expiry, key_of};
use crate::client::{Request, Url, percent_encoded};

/// Records that are asked for at once: each page is a snapshot of its own, and none is held for long.
const PAGE_RECORDS: u64 = 10_000;
/// A lot has so many records, or lines of so many bytes and one more.
const LOT_RECORDS: usize = 512;
const LOT_BYTES: usize = 256 << 10;

/// Which keys are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) prefix: Option<Vec<u8>>,
    /// Only those behind this one.
    pub(super) after: Option<Vec<u8>>,
}

/// A record, as one side has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// The line of JSON.
    Line(Vec<u8>),
    /// One whose line is too long to be held: when it expires, or 0.
    Large { key: Vec<u8>, expires_ms: u64 },
}

/// Some records that follow each other.
#[derive(Debug, Default)]
pub(super) struct Lot {
    pub(super) items: Vec<Item>,
    bytes: usize,
}

impl Lot {
    fn is_full(&self) -> bool {
        self.items.len() >= LOT_RECORDS || self.bytes >= LOT_BYTES
    }

    fn add(&mut self, item: Item) {
        self.bytes += match &item {
            Item::Line(bytes) | Item::Large { key: bytes, .. } => bytes.len(),
        };
        self.items.push(item);
    }

    /// The last of its keys.
    pub(super) fn last_key(&self) -> Option<Vec<u8>> {
        match self.items.last()? {
            Item::Line(line) => key_of(line),
            Item::Large { key, .. } => Some(key.clone()),
        }
    }
}

/// The records of one side, in the order of their keys.
pub(super) struct Source {
    url: Url,
    span: Span,
    patience: Patience,
}

/// Whether there is more.
enum PageEnd {
    More,
    Last,
    /// Nobody wants more.
    Unwanted,
}

impl Source {
    pub(super) fn new(url: &Url, span: Span, patience: Patience) -> Source {
        Source { url: url.clone(), span, patience }
    }

    /// Gives all of them to `take`, lot by lot, for as long as it wants more.
    pub(super) fn read(mut self, mut take: impl FnMut(Lot) -> bool) -> Result<(), Failure> {
        let mut attempts = self.patience.begin();
        loop {
            let before = self.span.after.clone();
            let page = self.page(&mut take);
            if self.span.after != before {
                attempts.succeeded();
            }
            match page {
                Ok(PageEnd::More) => {}
                Ok(PageEnd::Last | PageEnd::Unwanted) => return Ok(()),
                Err(trouble) => attempts.failed(trouble)?,
            }
        }
    }

    /// Reads a page. What came of it before something goes wrong counts.
    fn page(&mut self, take: &mut impl FnMut(Lot) -> bool) -> Result<PageEnd, Trouble> {
        let target = query(&self.span).target("/v0/entities");
        let request = Request { method: "GET", target, fields: LINES.into_iter().collect(), body: None };
        let response = request.send_with_patience(&self.url, Some(SILENCE_MAX))?;
        if response.status != 200 {
            return Err(Trouble::refused(response));
        }
        let (mut lines, mut lot, mut records, mut is_wanted) =
            (SplitLines::default(), Lot::default(), 0, true);
        let read = response.lines(|piece| {
            let mut hand_over = |item| {
                records += 1;
                lot.add(item);
                is_wanted = !lot.is_full() || give(&mut self.span.after, std::mem::take(&mut lot), take)?;
                Ok(is_wanted)
            };
            if lines.add(piece, &mut hand_over)? {
                Ok(())
            } else {
                Err(Trouble::Lasting(Failure::NobodyListens))
            }
        });
        if !is_wanted {
            return Ok(PageEnd::Unwanted);
        }
        if !lot.items.is_empty() && !give(&mut self.span.after, lot, take)? {
            return Ok(PageEnd::Unwanted);
        }
        read?;
        Ok(if records < PAGE_RECORDS { PageEnd::Last } else { PageEnd::More })
    }
}

fn give(after: &mut Option<Vec<u8>>, lot: Lot, take: &mut impl FnMut(Lot) -> bool) -> Result<bool, Failure> {
    *after = Some(lot.last_key().ok_or_else(no_record)?);
    Ok(take(lot))
}

fn query(span: &Span) -> Query {
    let mut query = Query::default();
    if let Some(prefix) = &span.prefix {
        query.add("prefix", &percent_encoded(prefix));
    }
    match (&span.after, &span.prefix) {
        (Some(key), _) => query.add("after", &percent_encoded(key)),
        (None, None) => query.add("start", "%00"),
        (None, Some(_)) => {}
    }
    query.add("limit", &PAGE_RECORDS.to_string());
    query.add("scope", "cluster");
    query
}

fn no_record() -> Failure {
    Failure::Failed("the source sent a line that is no record".to_owned())
}

/// Puts lines together that come in pieces. Of one that is too long it keeps the beginning, which has the key.
#[derive(Default)]
struct SplitLines {
    line: Vec<u8>,
    is_too_long: bool,
}

impl SplitLines {
    /// Gives each line that has ended to `take`, unless that wants no more: then it answers false.
    fn add(
        &mut self,
        piece: &[u8],
        take: &mut impl FnMut(Item) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            if self.line.len() + part.len() > LINE_BYTES_MAX {
                self.is_too_long = true;
            }
            let bytes_max = if self.is_too_long { BEGINNING_BYTES } else { LINE_BYTES_MAX };
            let room = bytes_max.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if !part.ends_with(b"\n") {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let item = if std::mem::take(&mut self.is_too_long) {
                let (key, expires_ms) = key_and_expiry(&line).ok_or_else(no_record)?;
                Item::Large { key, expires_ms }
            } else if line == b"\n" {
                // It says only that more is coming.
                continue;
            } else {
                Item::Line(line)
            };
            if !take(item)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &[u8], step: usize) -> Vec<Item> {
        let (mut lines, mut items) = (SplitLines::default(), Vec::new());
        for piece in text.chunks(step) {
            let mut take = |item| {
                items.push(item);
                Ok(true)
            };
            assert!(lines.add(piece, &mut take).expect("records"));
        }
        items
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text = b"\n{\"key\":\"a\",\"value\":\"x\"}\n\n\n{\"key\":\"b\\n\"}\n\n";
        let line = |line: &[u8]| Item::Line([line, b"\n"].concat());
        let expected = [line(b"{\"key\":\"a\",\"value\":\"x\"}"), line(b"{\"key\":\"b\\n\"}")];
        for step in 1..=text.len() {
            assert_eq!(items(text, step), expected, "by {step}");
        }
    }

    #[test]
    fn of_a_line_that_is_too_long_the_key_is_left() {
        let mut text = b"{\"key_base64\":\"/w==\",\"expires_ms\":7,\"value_base64\":\"".to_vec();
        text.resize(LINE_BYTES_MAX + 7, b'A');
        text.extend_from_slice(b"\"}\n{\"key\":\"z\"}\n");
        let expected =
            [Item::Large { key: vec![0xff], expires_ms: 7 }, Item::Line(b"{\"key\":\"z\"}\n".to_vec())];
        for step in [1_000, 65_536, text.len()] {
            assert_eq!(items(&text, step), expected, "by {step}");
        }
        let fits = [b"{\"key\":\"k\",\"value\":\"", &vec![b'v'; LINE_BYTES_MAX - 23][..], b"\"}\n"].concat();
        assert_eq!(fits.len(), LINE_BYTES_MAX);
        assert!(matches!(&items(&fits, 4_096)[..], [Item::Line(line)] if *line == fits));
    }

    #[test]
    fn a_page_begins_where_the_last_one_ended() {
        let target = |prefix: Option<&[u8]>, after: Option<&[u8]>| {
            let span = Span { prefix: prefix.map(<[u8]>::to_vec), after: after.map(<[u8]>::to_vec) };
            query(&span).target("/")
        };
        let rest = "limit=10000&scope=cluster";
        assert_eq!(target(None, None), format!("/?start=%00&{rest}"));
        assert_eq!(target(None, Some(b"\xff")), format!("/?after=%FF&{rest}"));
        assert_eq!(target(Some(b"p"), None), format!("/?prefix=p&{rest}"));
        assert_eq!(target(Some(b"p"), Some(b"pq")), format!("/?prefix=p&after=pq&{rest}"));
    }

    #[test]
    fn what_has_no_key_is_no_record() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let mut lines = SplitLines::default();
        let mut take = |_| Ok(true);
        assert!(lines.add(&long, &mut take).is_ok());
        assert!(matches!(lines.add(b"\n", &mut take), Err(Failure::Failed(_))));
    }
}
