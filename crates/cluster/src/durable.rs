//! What a node must not forget, and the bytes that it is kept as.
//!
//! ```text
//! replica-state := "LADOGAC" format u8 (2), incarnation u64, write_floor u64, synced_before u64, reserved_before u64,
//!            is_whole u8, count u16, (incarnation u64, is_replacement u8) × count, has_old_cells u8,
//!            (session u64, now, before) × count, crc u32                                        crc: of all before it
//! now, before := written u64, reserved u64
//! ```

use ladoga_model::Reader;

use crate::incarnation::Incarnation;
use crate::nodes::NODES_MAX;
use crate::reach::{Memory, Reach};
use crate::statement::Acquaintance;

const MAGIC: &[u8; 7] = b"LADOGAC";
const FORMAT: u8 = 2;
const MET_BYTES: usize = 9;
const MEMORY_BYTES: usize = 40;
/// The longest encoding of [`Durable`].
pub const DURABLE_BYTES_MAX: usize = 64 + (MET_BYTES + MEMORY_BYTES) * NODES_MAX;

/// What a node must not forget; kept by the driver in one small file, replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Durable {
    /// As in [`crate::Statement`].
    pub incarnation: Incarnation,
    /// As in [`crate::Statement`].
    pub write_floor: u64,
    /// As in [`crate::Statement`].
    pub synced_before: u64,
    /// As in [`crate::Statement`].
    pub is_whole: bool,
    /// Timestamps before this may have been given out.
    pub reserved_before: u64,
    /// As in [`crate::Statement`].
    pub met: Vec<Acquaintance>,
    /// While it is not whole: whether it has cells from before it was rebuilt. They may have been deleted since, and possibly
    /// no node knows of the deletion any more.
    pub has_old_cells: bool,
    /// As in [`crate::Statement`], a few seconds old.
    pub remembered: Vec<Memory>,
}

impl Durable {
    /// The state of a node whose directory is a copy of another node's: everything is new but the cells.
    pub fn of_a_copy(incarnation: Incarnation, copied: Option<Durable>) -> Durable {
        let reserved_before = copied.map_or(0, |copied| copied.reserved_before);
        Durable { incarnation, reserved_before, has_old_cells: true, ..Durable::default() }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Durable {
            incarnation,
            write_floor,
            synced_before,
            is_whole,
            reserved_before,
            met,
            has_old_cells,
            remembered,
        } = self;
        let mut out = MAGIC.to_vec();
        out.push(FORMAT);
        for number in [incarnation.0, *write_floor, *synced_before, *reserved_before] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(u8::from(*is_whole));
        out.extend_from_slice(&(met.len() as u16).to_le_bytes());
        for Acquaintance { incarnation, is_replacement } in met {
            out.extend_from_slice(&incarnation.0.to_le_bytes());
            out.push(u8::from(*is_replacement));
        }
        out.push(u8::from(*has_old_cells));
        for index in 0..met.len() {
            let Memory { session, now, before } = remembered.get(index).copied().unwrap_or_default();
            for number in [session, now.written, now.reserved, before.written, before.reserved] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// What these bytes say; `None` if they are none of [`Durable::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Durable> {
        let (checked, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(checked) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut reader = Reader::new(checked);
        if reader.bytes(MAGIC.len())? != MAGIC || reader.u8()? != FORMAT {
            return None;
        }
        let (incarnation, write_floor) = (Incarnation(reader.u64()?), reader.u64()?);
        let (synced_before, reserved_before) = (reader.u64()?, reader.u64()?);
        let is_whole = reader.u8()? != 0;
        let count = usize::from(reader.u16()?);
        if reader.remaining() != count * (MET_BYTES + MEMORY_BYTES) + 1 {
            return None;
        }
        let met = (0..count).map(|_| acquaintance(&mut reader)).collect::<Option<_>>()?;
        let has_old_cells = reader.u8()? != 0;
        let remembered = (0..count).map(|_| memory(&mut reader)).collect::<Option<_>>()?;
        Some(Durable {
            incarnation,
            write_floor,
            synced_before,
            is_whole,
            reserved_before,
            met,
            has_old_cells,
            remembered,
        })
    }
}

fn acquaintance(reader: &mut Reader<'_>) -> Option<Acquaintance> {
    Some(Acquaintance { incarnation: Incarnation(reader.u64()?), is_replacement: reader.u8()? != 0 })
}

fn memory(reader: &mut Reader<'_>) -> Option<Memory> {
    Some(Memory { session: reader.u64()?, now: reach(reader)?, before: reach(reader)? })
}

fn reach(reader: &mut Reader<'_>) -> Option<Reach> {
    Some(Reach { written: reader.u64()?, reserved: reader.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded_and_nothing_else_is() {
        let met =
            vec![Acquaintance::default(), Acquaintance { incarnation: Incarnation(9), is_replacement: true }];
        let reach = |written, reserved| Reach { written, reserved };
        let memory = Memory { session: 3, now: reach(4, 5), before: reach(6, 7) };
        let durable = Durable {
            incarnation: Incarnation(5),
            write_floor: 7,
            synced_before: 6,
            is_whole: true,
            reserved_before: 8,
            met,
            has_old_cells: true,
            remembered: vec![memory, Memory::default()],
        };
        let bytes = durable.encode();
        assert!(bytes.len() <= DURABLE_BYTES_MAX);
        assert_eq!(Durable::decode(&bytes), Some(durable));
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1;
            assert_eq!(Durable::decode(&damaged), None, "byte {index}");
            assert_eq!(Durable::decode(&bytes[..index]), None, "cut at {index}");
        }
        let many = Durable { met: vec![Acquaintance::default(); NODES_MAX], ..Durable::default() };
        assert!(many.encode().len() <= DURABLE_BYTES_MAX);
    }
}
