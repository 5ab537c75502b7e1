use bytes::{BufMut, Bytes, BytesMut};
use ladoga_cluster::{Acquaintance, AsOf, Had, Incarnation, Memory, NODES_MAX, Origin, Reach, Statement};
use ladoga_model::{Durability, Version};

use super::frame::FrameError;
use super::message::{put_short, put_version};
use super::reader::Reader;

/// What the cell of a conditional write takes the place of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Base {
    /// What the replica had when it promised.
    pub had: Option<Version>,
    /// What the cell was decided on: the newest version that a majority of promises showed. Not older, and older than the ballot.
    pub newest: Option<Version>,
    /// The incarnations of the key's replicas as the coordinator knew them when it began, by their places. Who lost its disk
    /// since then has promised nothing.
    pub met: Vec<Incarnation>,
}

pub(super) const fn origin_byte(origin: Origin) -> u8 {
    match origin {
        Origin::Client => 1,
        Origin::Hint => 2,
        Origin::Repair => 3,
        Origin::Exchange => 4,
    }
}

pub(super) const fn had_byte(had: Had) -> u8 {
    match had {
        Had::Never => 1,
        Had::Once => 2,
        Had::Unknown => 3,
        Had::Skipped => 4,
    }
}

pub(super) fn had(reader: &mut Reader) -> Result<Had, FrameError> {
    match reader.u8()? {
        1 => Ok(Had::Never),
        2 => Ok(Had::Once),
        3 => Ok(Had::Unknown),
        4 => Ok(Had::Skipped),
        _ => Err(reader.wrong("nothing else can be known of what it had")),
    }
}

pub(super) fn origin(reader: &mut Reader) -> Result<Origin, FrameError> {
    match reader.u8()? {
        1 => Ok(Origin::Client),
        2 => Ok(Origin::Hint),
        3 => Ok(Origin::Repair),
        4 => Ok(Origin::Exchange),
        _ => Err(reader.wrong("there is no such origin")),
    }
}

pub(super) const fn durability_byte(durability: Option<Durability>) -> u8 {
    match durability {
        None => 0,
        Some(Durability::Never) => 1,
        Some(Durability::EverySecond) => 2,
        Some(Durability::Always) => 3,
    }
}

pub(super) fn durability(reader: &mut Reader) -> Result<Option<Durability>, FrameError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(Durability::Never)),
        2 => Ok(Some(Durability::EverySecond)),
        3 => Ok(Some(Durability::Always)),
        _ => Err(reader.wrong("there is no such durability")),
    }
}

const REVERSE: u8 = 1;
const NO_VALUES: u8 = 2;

/// No flags, if cells are wanted as they are without a word: in the order of their keys, and with their values.
pub(super) fn put_span(out: &mut BytesMut, (start, end): (&[u8], &[u8]), is_reverse: bool, has_values: bool) {
    put_short(out, start);
    put_short(out, end);
    let flags = if is_reverse { REVERSE } else { 0 } | if has_values { 0 } else { NO_VALUES };
    if flags != 0 {
        out.put_u8(flags);
    }
}

/// Whether the last key comes first, and whether values are wanted.
pub(super) fn cells_flags(reader: &mut Reader) -> Result<(bool, bool), FrameError> {
    let flags = if reader.is_empty() { 0 } else { reader.u8()? };
    if flags & !(REVERSE | NO_VALUES) != 0 {
        return Err(reader.wrong("there is no such order of cells"));
    }
    Ok((flags & REVERSE != 0, flags & NO_VALUES == 0))
}

/// No number, if nothing is passed over: so it was before version 10.
pub(super) fn put_next(out: &mut BytesMut, stream: u32, skip: u64) {
    out.put_u32_le(stream);
    if skip > 0 {
        out.put_u64_le(skip);
    }
}

/// Which stream, and how many bytes are passed over.
pub(super) fn next(reader: &mut Reader) -> Result<(u32, u64), FrameError> {
    Ok((reader.u32()?, if reader.is_empty() { 0 } else { reader.u64()? }))
}

pub(super) fn put_base(out: &mut BytesMut, base: &Base) {
    put_version(out, base.had.unwrap_or(Version::ZERO));
    put_version(out, base.newest.unwrap_or(Version::ZERO));
    out.put_u16_le(base.met.len() as u16);
    base.met.iter().for_each(|incarnation| out.put_u64_le(incarnation.0));
}

/// What a cell with this ballot takes the place of. Only what is older: the store would be given an older cell for a newer one.
pub(super) fn base(reader: &mut Reader, ballot: Version) -> Result<Base, FrameError> {
    let mut version = || Ok(Some(reader.version()?).filter(|version| *version != Version::ZERO));
    let (had, newest) = (version()?, version()?);
    if had > newest {
        return Err(reader.wrong("a cell is decided on nothing older than what was there"));
    }
    if newest >= Some(ballot) {
        return Err(reader.wrong("a cell is newer than what it takes the place of"));
    }
    let met = (0..count_of_nodes(reader)?).map(|_| reader.u64().map(Incarnation));
    Ok(Base { had, newest, met: met.collect::<Result<_, _>>()? })
}

pub(super) fn put_slice(out: &mut BytesMut, slice: AsOf) {
    out.put_u64_le(slice.before);
    out.put_u64_le(slice.dropped_before);
}

pub(super) fn slice(reader: &mut Reader) -> Result<AsOf, FrameError> {
    Ok(AsOf { before: reader.u64()?, dropped_before: reader.u64()? })
}

pub(super) fn put_optional_key(out: &mut BytesMut, key: Option<&Bytes>) {
    if let Some(key) = key {
        put_short(out, key);
    }
}

pub(super) fn optional_key(reader: &mut Reader) -> Result<Option<Bytes>, FrameError> {
    if reader.is_empty() { Ok(None) } else { reader.key().map(Some) }
}

pub(super) fn put_statement(out: &mut BytesMut, statement: &Statement) {
    let Statement {
        incarnation,
        write_floor,
        synced_before,
        is_whole,
        clock,
        met,
        session,
        reach,
        remembered,
        wall_ms,
    } = statement;
    out.put_u64_le(incarnation.0);
    out.put_u64_le(*write_floor);
    out.put_u64_le(*synced_before);
    out.put_u8(u8::from(*is_whole));
    out.put_u64_le(*clock);
    out.put_u16_le(met.len() as u16);
    for Acquaintance { incarnation, is_replacement } in met {
        out.put_u64_le(incarnation.0);
        out.put_u8(u8::from(*is_replacement));
    }
    out.put_u64_le(*session);
    put_reach(out, *reach);
    out.put_u16_le(remembered.len() as u16);
    for Memory { session, now, before } in remembered {
        out.put_u64_le(*session);
        put_reach(out, *now);
        put_reach(out, *before);
    }
    out.put_u64_le(*wall_ms);
}

fn put_reach(out: &mut BytesMut, reach: Reach) {
    out.put_u64_le(reach.written);
    out.put_u64_le(reach.reserved);
}

fn reach(reader: &mut Reader) -> Result<Reach, FrameError> {
    Ok(Reach { written: reader.u64()?, reserved: reader.u64()? })
}

fn count_of_nodes(reader: &mut Reader) -> Result<usize, FrameError> {
    let count = usize::from(reader.u16()?);
    if count > NODES_MAX {
        return Err(reader.wrong("it has met more nodes than there may be"));
    }
    Ok(count)
}

pub(super) fn statement(reader: &mut Reader) -> Result<Statement, FrameError> {
    let incarnation = Incarnation(reader.u64()?);
    let write_floor = reader.u64()?;
    let synced_before = reader.u64()?;
    let is_whole = reader.bool()?;
    let clock = reader.u64()?;
    let met = (0..count_of_nodes(reader)?).map(|_| {
        Ok(Acquaintance { incarnation: Incarnation(reader.u64()?), is_replacement: reader.bool()? })
    });
    let met = met.collect::<Result<_, FrameError>>()?;
    let session = reader.u64()?;
    let own_reach = reach(reader)?;
    let remembered = (0..count_of_nodes(reader)?)
        .map(|_| Ok(Memory { session: reader.u64()?, now: reach(reader)?, before: reach(reader)? }));
    let remembered = remembered.collect::<Result<_, FrameError>>()?;
    Ok(Statement {
        incarnation,
        write_floor,
        synced_before,
        is_whole,
        clock,
        met,
        session,
        reach: own_reach,
        remembered,
        wall_ms: reader.u64()?,
    })
}
