//! What a node of a cluster must not forget, in the file `settled`.
//!
//! ```text
//! settled := "LADOGAC" format u8 (2), incarnation u64, closed_before u64, complete_before u64, reserved_before u64,
//!            is_whole u8, count u16, (incarnation u64, is_replacement u8) × count, has_old_cells u8,
//!            (session u64, now, before) × count, crc u32                                        crc: of all before it
//! now, before := written u64, reserved u64
//! ```
//!
//! Replaced as a whole: written to `settled.new`, synced, renamed, the directory synced.

use std::io;
use std::path::Path;

use bytes::{Buf, BufMut};
use ladoga_cluster::{Acquaintance, Durable, Incarnation, Memory, NODES_MAX, Reach};
use ladoga_env::{Disk, OpenMode};

const NAME: &str = "settled";
const NEW_NAME: &str = "settled.new";
const MAGIC: &[u8; 7] = b"LADOGAC";
const FORMAT: u8 = 2;
const MET_BYTES: usize = 9;
const MEMORY_BYTES: usize = 40;
const FILE_BYTES_MAX: u64 = 64 + ((MET_BYTES + MEMORY_BYTES) * NODES_MAX) as u64;

/// Reads what is there; `None` where there is nothing.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Durable>> {
    let path = dir.join(NAME);
    let file = match disk.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("open {} failed: {error}", path.display())));
        }
    };
    let bytes = file.len()?;
    let damaged = || {
        let what = format!(
            "{} is damaged: a file of {bytes} bytes that says what it is was expected",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    if bytes > FILE_BYTES_MAX {
        return Err(damaged());
    }
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(&mut buffer, 0)?;
    decode(&buffer).map(Some).ok_or_else(damaged)
}

/// Replaces what is there.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, durable: &Durable) -> io::Result<()> {
    let (new, path) = (dir.join(NEW_NAME), dir.join(NAME));
    match disk.remove(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.open(&new, OpenMode::CreateNew)?;
    file.write_all_at(&encode(durable), 0)?;
    file.sync_data()?;
    disk.rename(&new, &path)?;
    disk.sync_dir(dir)
}

fn encode(durable: &Durable) -> Vec<u8> {
    let Durable {
        incarnation,
        closed_before,
        complete_before,
        is_whole,
        reserved_before,
        met,
        has_old_cells,
        remembered,
    } = durable;
    let mut out = MAGIC.to_vec();
    out.put_u8(FORMAT);
    for number in [&incarnation.0, closed_before, complete_before, reserved_before] {
        out.put_u64_le(*number);
    }
    out.put_u8(u8::from(*is_whole));
    out.put_u16_le(met.len() as u16);
    for Acquaintance { incarnation, is_replacement } in met {
        out.put_u64_le(incarnation.0);
        out.put_u8(u8::from(*is_replacement));
    }
    out.put_u8(u8::from(*has_old_cells));
    for index in 0..met.len() {
        let Memory { session, now, before } = remembered.get(index).copied().unwrap_or_default();
        for number in [session, now.written, now.reserved, before.written, before.reserved] {
            out.put_u64_le(number);
        }
    }
    let crc = crc32c::crc32c(&out);
    out.put_u32_le(crc);
    out
}

fn decode(bytes: &[u8]) -> Option<Durable> {
    let (mut rest, crc) = bytes.split_last_chunk::<4>()?;
    if crc32c::crc32c(rest) != u32::from_le_bytes(*crc) || rest.len() < 8 + 32 + 3 {
        return None;
    }
    if rest.split_off(..7)? != MAGIC || rest.get_u8() != FORMAT {
        return None;
    }
    let [incarnation, closed_before, complete_before, reserved_before] =
        std::array::from_fn(|_| rest.get_u64_le());
    let is_whole = rest.get_u8() != 0;
    let count = usize::from(rest.get_u16_le());
    if rest.len() != count * (MET_BYTES + MEMORY_BYTES) + 1 {
        return None;
    }
    let met = (0..count)
        .map(|_| Acquaintance {
            incarnation: Incarnation(rest.get_u64_le()),
            is_replacement: rest.get_u8() != 0,
        })
        .collect();
    let has_old_cells = rest.get_u8() != 0;
    let remembered = (0..count).map(|_| Memory {
        session: rest.get_u64_le(),
        now: Reach { written: rest.get_u64_le(), reserved: rest.get_u64_le() },
        before: Reach { written: rest.get_u64_le(), reserved: rest.get_u64_le() },
    });
    let remembered = remembered.collect();
    Some(Durable {
        incarnation: Incarnation(incarnation),
        closed_before,
        complete_before,
        is_whole,
        reserved_before,
        met,
        has_old_cells,
        remembered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::Arc;

    #[test]
    fn what_was_written_is_read_and_damage_is_found_out() {
        let (env, _disk, _clock) = ladoga_env::sim::env(1);
        let (disk, dir) = (Arc::clone(&env.disk), PathBuf::from("/data"));
        disk.create_dir_all(&dir).expect("a directory");
        assert_eq!(read(&*disk, &dir).expect("nothing"), None);
        let met =
            vec![Acquaintance::default(), Acquaintance { incarnation: Incarnation(9), is_replacement: true }];
        let reach = |written, reserved| Reach { written, reserved };
        let memory = Memory { session: 3, now: reach(4, 5), before: reach(6, 7) };
        let remembered = vec![memory, Memory::default()];
        let durable = Durable {
            incarnation: Incarnation(5),
            closed_before: 7,
            is_whole: true,
            met,
            ..Durable::default()
        };
        let durable = Durable { has_old_cells: true, remembered, ..durable };
        for durable in [durable.clone(), Durable { complete_before: 6, ..durable }] {
            write(&*disk, &dir, &durable).expect("a write");
            assert_eq!(read(&*disk, &dir).expect("a read"), Some(durable));
        }
        let file = disk.open(&dir.join(NAME), OpenMode::ReadWrite).expect("the file");
        file.write_all_at(b"X", 20).expect("damage");
        assert!(read(&*disk, &dir).expect_err("damaged").to_string().contains("damaged"));
    }
}
