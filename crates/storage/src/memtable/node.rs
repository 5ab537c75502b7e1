//! The nodes in the arena: a key node for each key, a value node for each of its versions.
//!
//! ```text
//! key node   := next u32, hash u32, newest u32 (atomic), previous_key u32, key_len u16, key
//! value node := older u32, value_len u32, sequence u64, timestamp u64, node u16, kind u8, copies u8, pad 4,
//!               expires u64, value
//! ```
//!
//! `next` chains the keys of a bucket, `previous_key` all keys in the order of their arrival, `older` the versions of
//! a key from the newest on. All are offsets; 0 is the end.
#![expect(unsafe_code, reason = "places in the arena are known to be filled by the layout above")]

use std::sync::atomic::Ordering;

use ladoga_model::{Stamp, Version};

use super::arena::Arena;
use crate::record::{Kind, Record};

const KEY_HEADER: usize = 18;
const VALUE_HEADER: usize = 40;
const NEWEST: u32 = 8;
/// What is fetched ahead of a key and of a value whose lengths are not known yet.
const KEY_BYTES_FETCHED: usize = 24;
const VALUE_BYTES_FETCHED: usize = 128;

/// Bytes that a record of a new key takes at most.
pub(super) const fn node_bytes(key: usize, value: usize) -> usize {
    (KEY_HEADER + key).next_multiple_of(8) + (VALUE_HEADER + value).next_multiple_of(8)
}

/// A key node in its arena.
#[derive(Clone, Copy)]
pub(super) struct KeyNode<'a> {
    arena: &'a Arena,
    pub(super) offset: u32,
}

impl<'a> KeyNode<'a> {
    /// The node at an offset that [`KeyNode::create`] gave and the caller has from an `Acquire` load.
    #[inline]
    pub(super) const fn at(arena: &'a Arena, offset: u32) -> KeyNode<'a> {
        debug_assert!(offset != 0);
        KeyNode { arena, offset }
    }

    /// Writes a node, not yet reachable by readers; `None` if there is no room.
    pub(super) fn create(
        arena: &'a Arena,
        next: u32,
        hash: u32,
        newest: u32,
        previous_key: u32,
        key: &[u8],
    ) -> Option<KeyNode<'a>> {
        let offset = arena.allocate(KEY_HEADER + key.len())?;
        let mut header = [0; KEY_HEADER];
        header[..4].copy_from_slice(&next.to_ne_bytes());
        header[4..8].copy_from_slice(&hash.to_ne_bytes());
        header[8..12].copy_from_slice(&newest.to_ne_bytes());
        header[12..16].copy_from_slice(&previous_key.to_ne_bytes());
        header[16..].copy_from_slice(&(key.len() as u16).to_ne_bytes());
        // SAFETY: the allocation is new and its offset is not published.
        unsafe {
            arena.fill(offset, &header);
            arena.fill(offset + KEY_HEADER as u32, key);
        }
        Some(KeyNode { arena, offset })
    }

    #[inline]
    fn u32_at(self, at: u32) -> u32 {
        // SAFETY: the words at 0, 4 and 12 are filled once, before the node is published.
        let bytes = unsafe { self.arena.bytes(self.offset + at, 4) };
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    #[inline]
    pub(super) fn next(self) -> u32 {
        self.u32_at(0)
    }

    #[inline]
    pub(super) fn hash(self) -> u32 {
        self.u32_at(4)
    }

    #[inline]
    pub(super) fn previous_key(self) -> u32 {
        self.u32_at(12)
    }

    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        // SAFETY: length and key are filled once, before the node is published.
        unsafe {
            let length = self.arena.bytes(self.offset + 16, 2);
            let length = u16::from_ne_bytes([length[0], length[1]]);
            self.arena.bytes(self.offset + KEY_HEADER as u32, usize::from(length))
        }
    }

    #[inline]
    pub(super) fn newest(self) -> ValueNode<'a> {
        // SAFETY: the word at `NEWEST` is filled before the node is published and atomic from then on.
        let offset = unsafe { self.arena.word(self.offset + NEWEST) }.load(Ordering::Acquire);
        ValueNode { arena: self.arena, offset }
    }

    /// Prefetches the node.
    #[inline]
    pub(super) fn prefetch(self) {
        self.arena.prefetch(self.offset, KEY_HEADER + KEY_BYTES_FETCHED);
    }

    pub(super) fn publish_newest(self, value: u32) {
        // SAFETY: as in `newest`.
        unsafe { self.arena.word(self.offset + NEWEST) }.store(value, Ordering::Release);
    }

    /// The newest version at or before `sequence`.
    #[inline]
    pub(super) fn record_at(self, sequence: u64) -> Option<Record<'a>> {
        Some(self.value_at(sequence)?.record(self.key()))
    }

    /// The same without its key.
    #[inline]
    pub(super) fn value_at(self, sequence: u64) -> Option<ValueNode<'a>> {
        let mut value = self.newest();
        while value.sequence() > sequence {
            value = value.older()?;
        }
        Some(value)
    }
}

/// A value node in its arena.
#[derive(Clone, Copy)]
pub(super) struct ValueNode<'a> {
    arena: &'a Arena,
    offset: u32,
}

impl<'a> ValueNode<'a> {
    pub(super) const fn at(arena: &'a Arena, offset: u32) -> ValueNode<'a> {
        ValueNode { arena, offset }
    }

    /// Writes a node, not yet reachable by readers; `None` if there is no room.
    pub(super) fn create(arena: &'a Arena, older: u32, sequence: u64, record: &Record<'_>) -> Option<u32> {
        let offset = arena.allocate(VALUE_HEADER + record.value.len())?;
        let mut header = [0; VALUE_HEADER];
        header[..4].copy_from_slice(&older.to_ne_bytes());
        header[4..8].copy_from_slice(&(record.value.len() as u32).to_ne_bytes());
        header[8..16].copy_from_slice(&sequence.to_ne_bytes());
        header[16..24].copy_from_slice(&record.stamp.version.timestamp.to_ne_bytes());
        header[24..26].copy_from_slice(&record.stamp.version.node.to_ne_bytes());
        header[26] = record.kind as u8;
        header[27] = record.stamp.copies;
        header[32..].copy_from_slice(&record.stamp.expires_at_ms.to_ne_bytes());
        // SAFETY: the allocation is new and its offset is not published.
        unsafe {
            arena.fill(offset, &header);
            arena.fill(offset + VALUE_HEADER as u32, record.value);
        }
        Some(offset)
    }

    #[inline]
    fn header(self) -> &'a [u8; VALUE_HEADER] {
        // SAFETY: filled once, before the node is published.
        let bytes = unsafe { self.arena.bytes(self.offset, VALUE_HEADER) };
        bytes.first_chunk().expect("it was asked for with this length")
    }

    #[inline]
    pub(super) const fn offset(self) -> u32 {
        self.offset
    }

    /// Prefetches the node, and a small value with it.
    #[inline]
    pub(super) fn prefetch(self) {
        self.arena.prefetch(self.offset, VALUE_HEADER + VALUE_BYTES_FETCHED);
    }

    #[inline]
    fn older(self) -> Option<ValueNode<'a>> {
        let header = self.header();
        let offset = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        (offset != 0).then_some(ValueNode { arena: self.arena, offset })
    }

    #[inline]
    fn sequence(self) -> u64 {
        u64_in(self.header(), 8)
    }

    #[inline]
    pub(super) fn version(self) -> Version {
        let header = self.header();
        Version { timestamp: u64_in(header, 16), node: u16::from_ne_bytes([header[24], header[25]]) }
    }

    #[inline]
    pub(super) fn record(self, key: &'a [u8]) -> Record<'a> {
        let header = self.header();
        let length = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
        // SAFETY: filled once, before the node is published.
        let value = unsafe { self.arena.bytes(self.offset + VALUE_HEADER as u32, length as usize) };
        let kind = Kind::from_byte(header[26]).expect("written from a kind");
        let stamp = Stamp { version: self.version(), expires_at_ms: u64_in(header, 32), copies: header[27] };
        Record { key, stamp, kind, value }
    }
}

#[inline]
fn u64_in(header: &[u8; VALUE_HEADER], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&header[at..at + 8]);
    u64::from_ne_bytes(word)
}
