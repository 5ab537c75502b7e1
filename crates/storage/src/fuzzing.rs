//! Entry points for fuzzers: each decoder, given any bytes, answers or refuses, and never panics.

use std::path::Path;

use bytes::Bytes;

use crate::batch::records;
use crate::frame::{Frames, Header, Leftovers, LogKind};
use crate::memtable::key_hash;
use crate::table::{Block, Filter, Footer, Index, decode_stored};

/// A segment of the log: header, frames, the records in them, what lies behind.
pub fn wal(bytes: &[u8]) {
    let Ok(header) = Header::decode(LogKind::Wal, Path::new("fuzz"), bytes) else { return };
    let (number, first) = header.map_or((1, 1), |header| (header.number, header.first_sequence));
    let mut frames = Frames::new(bytes, number, first);
    while let Some(frame) = frames.next_frame() {
        records(frame.payload).for_each(drop);
    }
    Leftovers::find(bytes, number, frames.expected());
    records(bytes).for_each(drop);
}

/// A data block: as it stands in the file, and with its checksum passed.
pub fn block(bytes: &[u8]) {
    if let Ok(raw) = decode_stored(Path::new("fuzz"), 1, 0, bytes.to_vec()) {
        drop(raw);
    }
    let Some(block) = Block::parse(Bytes::copy_from_slice(bytes)) else { return };
    let key = bytes.get(..8).unwrap_or(b"key");
    _ = block.find(key_hash(key), key);
    _ = block.lower_bound(key);
    _ = block.verify();
}

/// The rest of a table: footer, index, filter.
pub fn table_footer(bytes: &[u8]) {
    _ = Footer::decode(Path::new("fuzz"), bytes.len() as u64, bytes);
    if let Some(index) = Index::parse(bytes) {
        let block = index.block_of(bytes.get(..8).unwrap_or(b"key"));
        index.place(block);
    }
    if let Some(filter) = Filter::parse(Bytes::copy_from_slice(bytes)) {
        filter.may_contain(key_hash(bytes));
    }
}

/// A manifest.
pub fn manifest(bytes: &[u8]) {
    _ = crate::levels::replay_manifest(Path::new("fuzz"), 1, bytes);
    _ = crate::levels::Edit::decode(bytes);
}
