//! Entry points for fuzzers: each decoder, given any bytes, answers or refuses, and never panics.
//!
//! Checksums keep almost all bytes from getting far, so each is also given bytes whose checksums fit.

use std::path::Path;

use bytes::Bytes;

use crate::batch::records;
use crate::coding::key_hash;
use crate::frame::{Frames, Header, Leftovers, LogId, LogKind, encode_frame};
use crate::log_bytes::LogBytes;
use crate::table::{Block, FOOTER_BYTES, Filter, Footer, Index, IndexFormat, decode_stored, with_checksum};

/// Of the logs that are made here.
const SECRET: Option<u64> = Some(0x1234_5678_9abc_def0);

/// A segment of the log: header, frames, the records in them, what lies behind.
pub fn wal(bytes: &[u8]) {
    for log in [bytes, &log_of(LogKind::Wal, bytes, None), &log_of(LogKind::Wal, bytes, SECRET)] {
        let mut bytes = LogBytes::of(Path::new("fuzz"), log.to_vec());
        let Ok(header) = Header::read(LogKind::Wal, &mut bytes) else { continue };
        let id = LogId { number: 1, secret: None };
        let header = header.unwrap_or(Header { log: id, first_sequence: 1, file_bytes: None });
        let mut frames = Frames::new(&mut bytes, header);
        while let Ok(Some(frame)) = frames.next_frame() {
            records(frame.payload).for_each(drop);
        }
        let expected = frames.expected();
        _ = Leftovers::find(&mut bytes, 0, header.log, expected);
        records(log).for_each(drop);
    }
}

/// A data block: as stored, with a checksum that fits, and unpacked.
pub fn block(bytes: &[u8]) {
    let path = Path::new("fuzz");
    // Packed blocks that claim to be large once unpacked are slow to refuse, and teach nothing new.
    let claims = bytes.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let sealed = (claims < 1 << 20).then(|| decode_stored(path, 1, 0, with_checksum(1, 0, bytes)));
    let as_it_is = decode_stored(path, 1, 0, bytes.to_vec());
    let unpacked = [as_it_is].into_iter().chain(sealed).filter_map(|unpacked| Some(unpacked.ok()?.bytes));
    let raw = [Bytes::copy_from_slice(bytes)].into_iter().chain(unpacked);
    let key = bytes.get(..8).unwrap_or(b"key");
    for block in raw.filter_map(|raw| Block::parse(raw, bytes.len())) {
        _ = block.find(key_hash(key), key);
        _ = block.lower_bound(key);
        _ = block.verify();
    }
}

/// The rest of a table: footer, index, filter.
pub fn table_footer(bytes: &[u8]) {
    let path = Path::new("fuzz");
    _ = Footer::decode(path, bytes.len() as u64, bytes);
    if let Some(handles) = bytes.get(..FOOTER_BYTES - 12) {
        let sealed = [handles, &crc32c::crc32c(handles).to_le_bytes(), b"LADOGAST"].concat();
        _ = Footer::decode(path, bytes.len() as u64, &sealed);
    }
    for format in [IndexFormat::Whole, IndexFormat::Shared] {
        if let Some(index) = Index::parse(bytes, format) {
            let block = index.block_of(bytes.get(..8).unwrap_or(b"key"));
            index.place(block);
        }
    }
    if let Some(filter) = Filter::parse(bytes) {
        filter.may_contain(key_hash(bytes));
    }
}

/// A manifest.
pub fn manifest(bytes: &[u8]) {
    let logs = [None, SECRET].map(|secret| log_of(LogKind::Manifest, bytes, secret));
    for log in logs.iter().map(Vec::as_slice).chain([bytes]) {
        _ = crate::levels::replay_manifest(1, LogBytes::of(Path::new("fuzz"), log.to_vec()));
    }
    _ = crate::levels::Edit::decode(bytes);
}

/// A log whose checksums fit. The bytes say how its frames are numbered, what they call durable, and what they hold.
fn log_of(kind: LogKind, bytes: &[u8], secret: Option<u64>) -> Vec<u8> {
    let id = LogId { number: 1, secret };
    let mut log = Header { log: id, first_sequence: 1, file_bytes: secret }.encode(kind);
    let (mut frame, mut sequence, mut rest) = (Vec::new(), 1_u64, bytes);
    while let [jump, durable, length, tail @ ..] = rest {
        let (payload, behind) = tail.split_at(usize::from(*length).min(tail.len()));
        sequence += u64::from(*jump == 0xff);
        encode_frame(&mut frame, id, sequence, u64::from(*durable), std::iter::once(payload));
        log.extend_from_slice(&frame);
        sequence += 1;
        rest = behind;
    }
    log
}
