//! ```text
//! record := crc u32, kind u8, 0 u8, node u16, key_hash u64, timestamp u64, synced u64       crc: of its place u64 and the rest
//! kind   := 1 promise | 2 release | 3 lift, up to this version (only read) | 4 void, before this timestamp | 5 mark
//!                                                                                          (never change these)
//! ```
//!
//! `synced` is the length of the file at its last sync, as far as that was known when the record was written. So if a record is
//! broken, a later one tells whether it was whole before.

use ladoga_cluster::Fences;
use ladoga_model::Version;

/// How long one is. A divisor of what a disk writes as a whole.
pub(super) const RECORD_BYTES: usize = 32;

/// What changes about the promises of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FenceRecord {
    /// No cell of the key that is older is taken.
    Promise(u64, Version),
    /// That is void.
    Release(u64, Version),
    /// The key has a cell of this version: of early builds. A power cut may take the cell, and not this.
    Lift(u64, Version),
    /// Whatever is older has arrived everywhere.
    Void(u64),
    /// Nothing; what stands before it was synced.
    Mark,
}

impl FenceRecord {
    /// As it stands at a place in the file, which was synced up to `synced`.
    pub(super) fn encode(self, place: u64, synced: u64) -> [u8; RECORD_BYTES] {
        let none = Version::ZERO;
        let (kind, key_hash, Version { timestamp, node }) = match self {
            FenceRecord::Promise(key_hash, version) => (1, key_hash, version),
            FenceRecord::Release(key_hash, version) => (2, key_hash, version),
            FenceRecord::Lift(key_hash, version) => (3, key_hash, version),
            FenceRecord::Void(timestamp) => (4, 0, Version { timestamp, node: 0 }),
            FenceRecord::Mark => (5, 0, none),
        };
        let mut out = [0; RECORD_BYTES];
        out[4] = kind;
        out[6..8].copy_from_slice(&node.to_le_bytes());
        out[8..16].copy_from_slice(&key_hash.to_le_bytes());
        out[16..24].copy_from_slice(&timestamp.to_le_bytes());
        out[24..].copy_from_slice(&synced.to_le_bytes());
        let crc = crc(place, &out[4..]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// What stands at a place, and up to where the file had been synced then; `None` if it is broken.
    pub(super) fn decode(bytes: &[u8; RECORD_BYTES], place: u64) -> Option<(FenceRecord, u64)> {
        let (found, rest) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*found) != crc(place, rest) {
            return None;
        }
        let number = |at: usize| bytes.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        let (key_hash, timestamp, synced) = (number(8)?, number(16)?, number(24)?);
        let version = Version { timestamp, node: u16::from_le_bytes([bytes[6], bytes[7]]) };
        let record = match bytes[4] {
            1 => FenceRecord::Promise(key_hash, version),
            2 => FenceRecord::Release(key_hash, version),
            3 => FenceRecord::Lift(key_hash, version),
            4 => FenceRecord::Void(timestamp),
            5 => FenceRecord::Mark,
            _ => return None,
        };
        Some((record, synced))
    }

    /// Does to the promises what it says.
    pub(super) fn apply(self, fences: &mut Fences) {
        match self {
            FenceRecord::Promise(key_hash, version) => fences.learn(key_hash, version),
            FenceRecord::Release(key_hash, version) => fences.release(key_hash, version),
            FenceRecord::Lift(key_hash, version) => fences.lift(key_hash, version),
            FenceRecord::Void(timestamp) => fences.void_before(timestamp),
            FenceRecord::Mark => false,
        };
    }
}

/// Ties a record to its place, so that what stood elsewhere is none.
fn crc(place: u64, rest: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&place.to_le_bytes()), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_is_found_out_and_so_is_another_place() {
        let version = Version { timestamp: 1 << 40, node: 3 };
        let records = [
            FenceRecord::Promise(7, version),
            FenceRecord::Release(7, version),
            FenceRecord::Lift(7, version),
            FenceRecord::Void(9),
            FenceRecord::Mark,
        ];
        for record in records {
            let bytes = record.encode(64, 32);
            assert_eq!(FenceRecord::decode(&bytes, 64), Some((record, 32)));
            assert_eq!(FenceRecord::decode(&bytes, 96), None);
            for bit in 0..RECORD_BYTES * 8 {
                let mut changed = bytes;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(FenceRecord::decode(&changed, 64), None, "bit {bit}");
            }
        }
    }
}
