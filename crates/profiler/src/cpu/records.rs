//! Records of the kernel's ring. Malformed bytes end the parsing of what was read; they never cause a panic.

use crate::stack::RawStack;

/// What `sys::perf_event` asks for: IP, thread, time, call chain in samples; thread and time behind the others.
#[expect(clippy::large_enum_variant, reason = "most records are samples, and each is looked at once")]
pub(crate) enum Record {
    Sample {
        process: u32,
        thread: u32,
        at_ns: u64,
        stack: RawStack,
    },
    /// The thread left the CPU or came back to it.
    Switch {
        at_ns: u64,
        out: bool,
        /// It could have run on.
        preempted: bool,
    },
    Lost(u64),
}

const TYPE_LOST: u32 = 2;
const TYPE_SAMPLE: u32 = 9;
const TYPE_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Addresses in a call chain from here on are markers for the context that follows.
const CONTEXT_MARKERS_FROM: u64 = u64::MAX - 4095;
const HEADER_BYTES: usize = 8;

/// All records that we know among `bytes`.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record> {
    std::iter::from_fn(move || {
        let kind = u32_at(bytes, 0)?;
        let misc = u16_at(bytes, 4)?;
        let size = usize::from(u16_at(bytes, 6)?);
        let body = bytes.get(HEADER_BYTES..size)?;
        bytes = &bytes[size..];
        Some(parse(kind, misc, body))
    })
    .flatten()
}

fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
    match kind {
        TYPE_SAMPLE => sample(body),
        TYPE_LOST => Some(Record::Lost(u64_at(body, 8)?)),
        TYPE_SWITCH => Some(Record::Switch {
            at_ns: u64_at(body, 8)?,
            out: misc & MISC_SWITCH_OUT != 0,
            preempted: misc & MISC_SWITCH_OUT_PREEMPT != 0,
        }),
        _ => None,
    }
}

fn sample(body: &[u8]) -> Option<Record> {
    let ip = u64_at(body, 0)?;
    let (process, thread) = (u32_at(body, 8)?, u32_at(body, 12)?);
    let at_ns = u64_at(body, 16)?;
    let frames = u64_at(body, 24)? as usize;
    let mut stack = RawStack::new();
    for at in 0..frames {
        let address = u64_at(body, 32 + at * 8)?;
        if address < CONTEXT_MARKERS_FROM && !stack.push(address) {
            break;
        }
    }
    if stack.as_slice().is_empty() {
        stack.push(ip);
    }
    Some(Record::Sample { process, thread, at_ns, stack })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = (HEADER_BYTES + words.len() * 8) as u16;
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn markers_are_no_frames() {
        let kernel = (-128i64) as u64;
        let user = (-512i64) as u64;
        let mut bytes = record(77, 0, &[1, 2, 3]);
        bytes.extend(record(TYPE_SAMPLE, 0, &[100, 7 << 32 | 5, 42, 4, kernel, 100, user, 200]));
        bytes.extend(record(TYPE_SWITCH, MISC_SWITCH_OUT, &[5, 43]));
        let found: Vec<Record> = records(&bytes).collect();
        let [
            Record::Sample { process: 5, thread: 7, at_ns: 42, stack },
            Record::Switch { at_ns: 43, out: true, preempted: false },
        ] = found.as_slice()
        else {
            panic!("{} records", found.len());
        };
        assert_eq!(stack.as_slice(), [100, 200]);
    }

    #[test]
    fn truncated_and_wild_records_end_it() {
        let whole = record(TYPE_SAMPLE, 0, &[100, 5, 42, 1 << 60, 7]);
        for cut in 0..=whole.len() {
            assert_eq!(records(&whole[..cut]).count(), 0, "{cut}");
        }
        assert_eq!(records(&[0; 64]).count(), 0);
    }
}
