//! What a node of a cluster must not forget, in the file `replica-state`.
//!
//! Replaced as a whole.

use std::io;
use std::path::Path;

use ladoga_cluster::{DURABLE_BYTES_MAX, DURABLE_FORMAT, Durable, KeptState};
use ladoga_env::{Disk, OpenMode, Replacement};

const NAME: &str = "replica-state";

/// Reads the file; `None` if there is none.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Option<KeptState>> {
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
            "{} is damaged: expected a valid replica state, found {bytes} bytes with a wrong header or checksum",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    if bytes > DURABLE_BYTES_MAX as u64 {
        return Err(damaged());
    }
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(&mut buffer, 0)?;
    if let Some(format) = Durable::newer_format(&buffer) {
        let what =
            format!("{} has the format version {format}, expected at most {DURABLE_FORMAT}", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Durable::decode(&buffer).map(Some).ok_or_else(damaged)
}

/// Replaces the file; the state is about the nodes with these [names](ladoga_cluster::NodeList::name_hashes).
pub(crate) fn write(disk: &dyn Disk, dir: &Path, durable: &Durable, names: &[u64]) -> io::Result<()> {
    Ok(Replacement::of(disk, &dir.join(NAME), &durable.encode(names))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_cluster::{Acquaintance, Incarnation, Memory, Reach};
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
            write_floor: 7,
            is_whole: true,
            met,
            ..Durable::default()
        };
        let durable = Durable { has_old_cells: true, remembered, joining: vec![false, true], ..durable };
        for durable in [durable.clone(), Durable { synced_before: 6, ..durable }] {
            write(&*disk, &dir, &durable, &[70, 71]).expect("a write");
            let kept = KeptState { durable, names: Some(vec![70, 71]) };
            assert_eq!(read(&*disk, &dir).expect("a read"), Some(kept));
        }
        let file = disk.open(&dir.join(NAME), OpenMode::ReadWrite).expect("the file");
        file.write_all_at(b"X", 20).expect("damage");
        assert!(read(&*disk, &dir).expect_err("damaged").to_string().contains("damaged"));
        file.write_all_at(&[DURABLE_FORMAT + 1], 7).expect("another format");
        let error = read(&*disk, &dir).expect_err("a newer format").to_string();
        assert!(error.contains("version 4, expected at most 3"), "{error}");
    }
}
