//! What a node must not forget, and the bytes that it is kept as.
//!
//! ```text
//! replica-state := "LADOGAC" format u8 (3), incarnation u64, write_floor u64, synced_before u64, reserved_before u64,
//!            is_whole u8, count u16, (incarnation u64, is_replacement u8) × count, has_old_cells u8,
//!            (session u64, now, before) × count, departed u64, relisting u8, copies_of_all u8,
//!            (name u64, is_joining u8) × count, crc u32                     crc: of all before it
//! now, before := written u64, reserved u64
//! name        := xxh3 of the URL of the node that the entry at the same place is about
//! ```
//!
//! Format 2, which is read, ends behind the memories: its entries were about the nodes by their places in the list.

use ladoga_model::Reader;

use crate::incarnation::Incarnation;
use crate::nodes::NODES_MAX;
use crate::reach::{Memory, Reach};
use crate::statement::Acquaintance;

const MAGIC: &[u8; 7] = b"LADOGAC";
/// The version of the format that is written.
pub const DURABLE_FORMAT: u8 = 3;
/// The one that has no names.
const FORMAT_BY_PLACE: u8 = 2;
const MET_BYTES: usize = 9;
const MEMORY_BYTES: usize = 40;
const LIST_BYTES: usize = 10;
const NAME_BYTES: usize = 9;
/// The longest encoding of [`Durable`].
pub const DURABLE_BYTES_MAX: usize = 80 + (MET_BYTES + MEMORY_BYTES + NAME_BYTES) * NODES_MAX;

/// What a change of the list of nodes has left to be done at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Relisting {
    /// Nothing.
    #[default]
    Done = 0,
    /// It has not yet pulled all that it should hold by this list.
    Pulls = 1,
    /// This is the directory of a node that left the list and came back with it. What was deleted in between may still be there, and
    /// no node knows of that any more: it is of no use.
    Outdated = 2,
}

impl Relisting {
    fn of(byte: u8) -> Option<Relisting> {
        [Relisting::Done, Relisting::Pulls, Relisting::Outdated].into_iter().find(|&it| it as u8 == byte)
    }

    /// There is something to be pulled.
    #[must_use]
    pub fn and_pulls(self) -> Relisting {
        if self == Relisting::Outdated { self } else { Relisting::Pulls }
    }
}

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
    /// The latest of the incarnations of nodes that have left the list.
    pub departed: Incarnation,
    /// What a change of the list of nodes has left to be done.
    pub relisting: Relisting,
    /// A cell for so many nodes was for all of them by a list before this one; 0 if there was none. Those that are new copy it, too:
    /// requests that do not say a number mean all nodes.
    pub copies_of_all: u8,
    /// The nodes that are new in the list and have not copied the data of the others yet, by node.
    pub joining: Vec<bool>,
}

/// The state of a node as it was kept, and the nodes that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptState {
    /// The state.
    pub durable: Durable,
    /// The [names](crate::NodeList::name_hashes) of the nodes that it is about, in the order of its entries; `None` if it was
    /// kept by place only.
    pub names: Option<Vec<u64>>,
}

impl Durable {
    /// The state of a node whose directory is a copy of another node's: everything is new but the cells.
    pub fn of_a_copy(incarnation: Incarnation, copied: Option<Durable>) -> Durable {
        let reserved_before = copied.map_or(0, |copied| copied.reserved_before);
        Durable { incarnation, reserved_before, has_old_cells: true, ..Durable::default() }
    }

    /// Its bytes, with the [names](crate::NodeList::name_hashes) of the nodes that it is about.
    ///
    /// # Panics
    /// If there are fewer of them.
    pub fn encode(&self, names: &[u64]) -> Vec<u8> {
        let Durable {
            incarnation,
            write_floor,
            synced_before,
            is_whole,
            reserved_before,
            met,
            has_old_cells,
            remembered,
            departed,
            relisting,
            copies_of_all,
            joining,
        } = self;
        let mut out = MAGIC.to_vec();
        out.push(DURABLE_FORMAT);
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
        out.extend_from_slice(&departed.0.to_le_bytes());
        out.extend_from_slice(&[*relisting as u8, *copies_of_all]);
        for (index, name) in names[..met.len()].iter().enumerate() {
            out.extend_from_slice(&name.to_le_bytes());
            out.push(u8::from(joining.get(index).copied().unwrap_or_default()));
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// The version of the format of these bytes, if it is one that is not known yet.
    pub fn newer_format(bytes: &[u8]) -> Option<u8> {
        let format = *bytes.strip_prefix(MAGIC)?.first()?;
        (format > DURABLE_FORMAT).then_some(format)
    }

    /// What these bytes say, and of which nodes; `None` if they are none of [`Durable::encode`].
    pub fn decode(bytes: &[u8]) -> Option<KeptState> {
        let (checked, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(checked) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut reader = Reader::new(checked);
        if reader.bytes(MAGIC.len())? != MAGIC {
            return None;
        }
        let has_names = match reader.u8()? {
            DURABLE_FORMAT => true,
            FORMAT_BY_PLACE => false,
            _ => return None,
        };
        let (incarnation, write_floor) = (Incarnation(reader.u64()?), reader.u64()?);
        let (synced_before, reserved_before) = (reader.u64()?, reader.u64()?);
        let is_whole = reader.u8()? != 0;
        let count = usize::from(reader.u16()?);
        let bytes_of_names = if has_names { LIST_BYTES + count * NAME_BYTES } else { 0 };
        if reader.remaining() != count * (MET_BYTES + MEMORY_BYTES) + 1 + bytes_of_names {
            return None;
        }
        let met = (0..count).map(|_| acquaintance(&mut reader)).collect::<Option<_>>()?;
        let has_old_cells = reader.u8()? != 0;
        let remembered = (0..count).map(|_| memory(&mut reader)).collect::<Option<_>>()?;
        let (mut departed, mut relisting) = (Incarnation::NONE, Relisting::Done);
        let (mut copies_of_all, mut joining, mut names) = (0, vec![false; count], None);
        if has_names {
            (departed, relisting) = (Incarnation(reader.u64()?), Relisting::of(reader.u8()?)?);
            copies_of_all = reader.u8()?;
            let each = (0..count).map(|_| Some((reader.u64()?, reader.u8()? != 0)));
            let (each_name, each_joining) = each.collect::<Option<Vec<_>>>()?.into_iter().unzip();
            (names, joining) = (Some(each_name), each_joining);
        }
        let durable = Durable {
            incarnation,
            write_floor,
            synced_before,
            is_whole,
            reserved_before,
            met,
            has_old_cells,
            remembered,
            departed,
            relisting,
            copies_of_all,
            joining,
        };
        Some(KeptState { durable, names })
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
            departed: Incarnation(4),
            relisting: Relisting::Outdated,
            copies_of_all: 3,
            joining: vec![false, true],
        };
        let bytes = durable.encode(&[70, 71]);
        assert!(bytes.len() <= DURABLE_BYTES_MAX);
        assert_eq!(Durable::decode(&bytes), Some(KeptState { durable, names: Some(vec![70, 71]) }));
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1;
            assert_eq!(Durable::decode(&damaged), None, "byte {index}");
            assert_eq!(Durable::decode(&bytes[..index]), None, "cut at {index}");
        }
        let many = Durable { met: vec![Acquaintance::default(); NODES_MAX], ..Durable::default() };
        assert!(many.encode(&[0; NODES_MAX]).len() <= DURABLE_BYTES_MAX);
    }

    /// As the version before this one wrote it: nodes by place, and nothing behind the memories.
    #[test]
    fn a_state_of_format_2_is_read() {
        let met = vec![Acquaintance { incarnation: Incarnation(9), is_replacement: true }];
        let remembered = vec![Memory { session: 3, ..Memory::default() }];
        let joining = vec![false];
        let durable =
            Durable { incarnation: Incarnation(5), is_whole: true, met, remembered, ..Durable::default() };
        let durable = Durable { joining, ..durable };
        let mut bytes = durable.encode(&[70]);
        bytes.truncate(bytes.len() - LIST_BYTES - NAME_BYTES - size_of::<u32>());
        bytes[MAGIC.len()] = FORMAT_BY_PLACE;
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        assert_eq!(Durable::decode(&bytes), Some(KeptState { durable, names: None }));
        assert_eq!(Durable::newer_format(&bytes), None);
        bytes[MAGIC.len()] = DURABLE_FORMAT + 1;
        assert_eq!(Durable::newer_format(&bytes), Some(DURABLE_FORMAT + 1));
    }
}
