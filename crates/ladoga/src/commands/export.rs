use std::io::{BufWriter, Write, stderr};

use super::range::{Lines, Query, ask_once_admitted};
use super::record::{BEGINNING_BYTES, key_of};
use super::tally::ProgressLine;
use super::{Failure, counted, output};
use crate::batch_arguments::ExportArguments;
use crate::client::percent_encoded;

/// Records that are asked for at once: each page is a snapshot of its own, and none is held for long.
const PAGE_RECORDS: u64 = 10_000;

/// Prints all records of a node or cluster, or those of a prefix.
pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let mut out = BufWriter::new(output());
    let (mut records, mut after) = (0, None::<Vec<u8>>);
    let mut progress = ProgressLine::of("records");
    loop {
        let mut query = Query::default();
        query.add_key("prefix", arguments.prefix.as_deref());
        match &after {
            Some(key) => query.add("after", &percent_encoded(key)),
            None if arguments.prefix.is_none() => query.add("start", "%00"),
            None => {}
        }
        query.add("limit", &PAGE_RECORDS.to_string());
        query.add("scope", "cluster");
        let response = ask_once_admitted(&query, &arguments.node)?;
        let (mut lines, mut page) = (Lines::default(), Page::default());
        response.lines(|piece| {
            lines.print(&mut out, piece)?;
            page.add(piece);
            progress.tell(records + page.records);
            Ok::<_, Failure>(())
        })?;
        records += page.records;
        if page.records < PAGE_RECORDS {
            break;
        }
        let last = page.last_key();
        after =
            Some(last.ok_or_else(|| Failure::Failed("the node sent a line that is no record".to_owned()))?);
    }
    out.flush()?;
    drop(progress);
    _ = writeln!(stderr(), "{}", counted(records, "record"));
    Ok(())
}

/// Counts the lines of a page, and keeps the beginning of the last one.
#[derive(Default)]
struct Page {
    records: u64,
    beginning: Vec<u8>,
    last: Vec<u8>,
    is_within: bool,
}

impl Page {
    fn add(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            // An empty line says only that more is coming.
            if !self.is_within && part == b"\n" {
                continue;
            }
            let room = BEGINNING_BYTES - self.beginning.len();
            self.beginning.extend_from_slice(&part[..part.len().min(room)]);
            self.is_within = !part.ends_with(b"\n");
            if !self.is_within {
                self.records += 1;
                std::mem::swap(&mut self.last, &mut self.beginning);
                self.beginning.clear();
            }
        }
    }

    fn last_key(&self) -> Option<Vec<u8>> {
        key_of(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_of_a_page_is_where_the_next_one_begins() {
        let lines = b"\n{\"key\":\"a\",\"value\":\"x\"}\n\n{\"key\":\"b\\\"\\u00e9\",\"etag\":\"\"}\n";
        for step in 1..=lines.len() {
            let mut page = Page::default();
            lines.chunks(step).for_each(|piece| page.add(piece));
            assert_eq!(
                (page.records, page.last_key()),
                (2, Some("b\"\u{e9}".as_bytes().to_vec())),
                "by {step}"
            );
        }
        let mut page = Page::default();
        page.add(b"{\"key_base64\":\"/w==\",\"value\":\"");
        page.add(&vec![b'v'; 2 * BEGINNING_BYTES]);
        page.add(b"\"}\n");
        assert_eq!((page.records, page.last_key()), (1, Some(b"\xff".to_vec())));
        page.add(b"nonsense\n");
        assert_eq!(page.last_key(), None);
    }
}
