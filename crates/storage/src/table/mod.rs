//! Sorted tables: immutable files of records in key order, each key once.
//!
//! ```text
//! table  := data block*, filter block, index block, properties block, footer
//! stored := payload, compression u8, raw_len u32, crc u32        (how every block stands in the file; with 0x80 in
//!                                                                 compression, payload, 0u8 × n, n u16, ...)
//! data   := record*, tag u8 × n, offset u32 × n, n u32           (tag: the key's hash >> 56)
//! filter := blocked bloom filter: 64-byte lines, probes u8
//! index  := n u32, (shared u16, length u16, rest, offset u64) × n, end u64
//!                                         (separator: as many bytes of the one before as are shared, then the rest; over
//!                                          every key before the block, at most its first key)
//! footer := (offset u64, size u32) of filter, index, properties; format u32, crc u32, "LADOGAST"
//! ```
//!
//! A block's checksum is crc32c over the table's number, the block's offset and all that precedes the checksum, so a
//! block in the wrong place is found out too.

mod block;
mod builder;
mod cache;
mod cursor;
mod expiries;
mod filter;
mod footer;
mod index;
mod meta;
mod pages;
mod reader;
mod resident;
mod separators;
mod stored;

pub(crate) use block::Block;
pub(crate) use builder::TableBuilder;
pub(crate) use cache::BlockCache;
pub(crate) use cursor::{LONG_BLOCK_BYTES, TableCursor};
pub(crate) use expiries::Expiries;
pub(crate) use footer::{FOOTER_BYTES, Footer};
pub(crate) use meta::TableMeta;
pub(crate) use reader::{Access, MissingBlock, Table, TableGet, TableShared, missing_table};
pub(crate) use resident::{Loaded, Resident};
pub(crate) use stored::{BlockHandle, Unpacked, decode_stored, with_checksum};

pub(crate) use filter::Filter;
pub(crate) use index::{Index, IndexFormat};

/// Behind a block's payload: compression, raw length, checksum.
const TRAILER_BYTES: usize = 1 + 4 + 4;
/// The target length of a stored data block, or of several that fill a page together: a page of the system's, so that reading a
/// block takes one page from the disk. Unpacked, a block may be half as long again.
const BLOCK_BYTES: usize = 4096;

/// A length in a file above this is no length.
const BLOCK_BYTES_MAX: usize = 64 << 20;
