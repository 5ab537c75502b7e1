use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::{Disk, File, OpenMode, Replacement};

use super::Edit;
use crate::error::Error;
use crate::frame::{
    Frames, Header, Leftovers, LogId, LogKind, PAYLOAD_BYTES_MAX, encode_frame, missing_frame,
};
use crate::log_bytes::{LogBytes, measure};
use crate::paths;
use crate::table::TableMeta;
use crate::wal::LogStart;

/// Room for edits that is made ahead, so that a full disk shows before anything is half-written.
const ALLOCATE_BYTES: u64 = 256 << 10;

/// The name of a manifest is shorter.
const CURRENT_BYTES_MAX: u64 = 64;
/// A manifest is replaced once it is twice as long as the edits that hold the whole state, or sixteen MiB. The keys of that are in
/// memory, so no store has as much.
const MANIFEST_BYTES_MAX: u64 = 256 * PAYLOAD_BYTES_MAX as u64;
/// The whole state is written in edits of about so many bytes: one table of each takes more, at most.
const PART_BYTES: usize = if cfg!(test) { 1 << 10 } else { PAYLOAD_BYTES_MAX / 16 };

/// The state that a manifest describes once all its edits are applied.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub number: u64,
    /// What all logs of the store are checked with; `None` in a store from before there was one.
    pub secret: Option<u64>,
    pub next_file: u64,
    pub first_wal: u64,
    pub first_sequence: u64,
    /// Whether the first segment of the log is a file.
    pub log_begun: bool,
    /// Deletions up to this timestamp may have been dropped although somebody may ask for them; `None` if that never was.
    pub dropped_up_to: Option<u64>,
    pub tables: BTreeMap<u64, (usize, TableMeta)>,
}

/// The log of changes to the set of tables and logs.
pub(crate) struct Manifest {
    file: Arc<dyn File>,
    path: PathBuf,
    log: LogId,
    offset: u64,
    allocated: u64,
    sequence: u64,
    frame: Vec<u8>,
    /// What the edits say by now.
    first_wal: u64,
    first_sequence: u64,
    dropped_up_to: Option<u64>,
    /// The length up to the end of the first edits, which hold the whole state.
    everything_bytes: u64,
    /// The manifest that `CURRENT` may still name after a crash.
    replaced: Option<PathBuf>,
}

impl Manifest {
    /// Begins a new manifest with everything in its first edits, and lets `CURRENT` name it.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        log: LogId,
        everything: &Edit,
    ) -> Result<Manifest, Error> {
        let manifest = Manifest::prepare(disk, dir, log, everything)?;
        manifest.prepare_current(disk, dir)?.publish(disk)?;
        Ok(manifest)
    }

    /// Begins a manifest that nothing names yet; one that fails is no harm.
    pub(crate) fn prepare(
        disk: &dyn Disk,
        dir: &Path,
        log: LogId,
        everything: &Edit,
    ) -> Result<Manifest, Error> {
        let path = dir.join(paths::manifest_name(log.number));
        let file = disk.open(&path, OpenMode::CreateNew).map_err(Error::io("create", &path))?;
        let mut manifest = Manifest {
            file,
            path,
            log,
            offset: 0,
            allocated: 0,
            sequence: 0,
            frame: Vec::new(),
            first_wal: 0,
            first_sequence: 0,
            dropped_up_to: None,
            everything_bytes: 0,
            replaced: None,
        };
        // Durable, and its name too, before CURRENT names it.
        let written = manifest
            .begin(everything)
            .and_then(|()| disk.sync_dir(dir).map_err(Error::io("sync directory", dir)));
        if let Err(error) = written {
            // On a full disk, the remains of the attempts would add up.
            _ = disk.remove(&manifest.path);
            return Err(error);
        }
        Ok(manifest)
    }

    fn begin(&mut self, everything: &Edit) -> Result<(), Error> {
        let header = Header { log: self.log, first_sequence: 1, file_bytes: Some(0) };
        let header = header.encode(LogKind::Manifest);
        self.file.write_all_at(&header, 0).map_err(Error::io_at("write", &self.path, 0))?;
        self.offset = header.len() as u64;
        // Nothing names the file before all of them are durable.
        for part in everything.encode_in_parts(PART_BYTES) {
            self.append_frame(&part)?;
        }
        self.take_over_numbers(everything);
        self.everything_bytes = self.offset;
        Ok(())
    }

    /// Whether it is time for a new one: it is longer than `bytes_max`, and than twice the whole state.
    pub(crate) fn is_long(&self, bytes_max: u64) -> bool {
        self.offset > bytes_max.max(self.everything_bytes * 2)
    }

    /// Everything as one edit, with these tables, of a store that is open: so its log was begun.
    pub(crate) fn everything(&self, next_file: u64, tables: Vec<(usize, TableMeta)>) -> Edit {
        Edit {
            next_file: Some(next_file),
            first_wal: Some(self.first_wal),
            first_sequence: Some(self.first_sequence),
            log_begun: true,
            added: tables,
            removed: Vec::new(),
            dropped_up_to: self.dropped_up_to,
        }
    }

    /// What the store's logs are checked with.
    pub(crate) const fn secret(&self) -> Option<u64> {
        self.log.secret
    }

    /// Up to which timestamp deletions may have been dropped although somebody may ask for them, if that ever was.
    pub(crate) const fn dropped_up_to(&self) -> Option<u64> {
        self.dropped_up_to
    }

    pub(crate) const fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Goes on in the next one, which `CURRENT` names by now; a crash may still leave it naming this one.
    pub(crate) fn go_on_in(&mut self, next: Manifest) {
        let old = std::mem::replace(self, next);
        self.replaced = Some(old.path);
    }

    /// The one before it, if `CURRENT` may still name that after a crash.
    pub(crate) const fn replaced(&self) -> Option<&PathBuf> {
        self.replaced.as_ref()
    }

    /// `CURRENT` names this one, durably.
    pub(crate) fn forget_replaced(&mut self) {
        self.replaced = None;
    }

    /// Writes what `CURRENT` is going to be, under another name; one that fails is no harm.
    pub(crate) fn prepare_current(&self, disk: &dyn Disk, dir: &Path) -> Result<Replacement, Error> {
        let current = Replacement::begin(disk, &dir.join(paths::CURRENT))?;
        current.fill(format!("{}\n", paths::manifest_name(self.log.number)).as_bytes())?;
        Ok(current)
    }

    /// Makes room for an edit. Fails without harm if the disk is full.
    pub(crate) fn reserve(&mut self, edit: &Edit) -> Result<(), Error> {
        let needed = self.offset + edit.encode().len() as u64 + 64;
        if needed > self.allocated {
            let length = needed.next_multiple_of(ALLOCATE_BYTES);
            self.file.allocate(length).map_err(Error::io("allocate", &self.path))?;
            self.allocated = length;
        }
        Ok(())
    }

    /// Appends an edit and makes it durable. After a failure it is unknown what is on disk: the caller poisons the store.
    pub(crate) fn append(&mut self, edit: &Edit) -> Result<(), Error> {
        self.append_frame(&edit.encode())?;
        self.take_over_numbers(edit);
        Ok(())
    }

    fn append_frame(&mut self, payload: &[u8]) -> Result<(), Error> {
        let (sequence, durable) = (self.sequence + 1, self.sequence);
        encode_frame(&mut self.frame, self.log, sequence, durable, std::iter::once(payload));
        self.file.write_all_at(&self.frame, self.offset).map_err(Error::io_at(
            "write",
            &self.path,
            self.offset,
        ))?;
        self.file.sync_data().map_err(Error::io("sync", &self.path))?;
        self.offset += self.frame.len() as u64;
        self.sequence = sequence;
        Ok(())
    }

    fn take_over_numbers(&mut self, edit: &Edit) {
        self.first_wal = edit.first_wal.unwrap_or(self.first_wal);
        self.first_sequence = edit.first_sequence.unwrap_or(self.first_sequence);
        self.dropped_up_to = self.dropped_up_to.max(edit.dropped_up_to);
    }
}

/// Reads a whole file. One that is longer than `bytes_max` is none of ours.
fn read_file(disk: &dyn Disk, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let file = disk.open(path, OpenMode::Read).map_err(Error::io("open", path))?;
    let length = measure(&*file, path, bytes_max)?;
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0).map_err(Error::io_at("read", path, 0))?;
    Ok(bytes)
}

/// The manifest that `CURRENT` names; `None` in a directory where no store was made yet.
pub(crate) fn read_manifest(disk: &dyn Disk, dir: &Path) -> Result<Option<Recovered>, Error> {
    let current = dir.join(paths::CURRENT);
    let corrupt = |found: String| Error::Corruption {
        path: current.clone(),
        offset: 0,
        what: "CURRENT",
        expected: "the name of a manifest".to_owned(),
        found,
    };
    let name = match read_file(disk, &current, CURRENT_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(Error::Io { kind: std::io::ErrorKind::NotFound, .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let name = String::from_utf8_lossy(&name);
    let number = name.strip_suffix('\n').and_then(|name| paths::parse(name, "manifest-", ""));
    let number = number.ok_or_else(|| corrupt(format!("{name:?}")))?;
    let path = dir.join(paths::manifest_name(number));
    match LogBytes::open(disk, path.clone(), MANIFEST_BYTES_MAX) {
        Ok(bytes) => replay(number, bytes).map(Some),
        // A manifest stays until another is durable and named.
        Err(Error::Io { kind: std::io::ErrorKind::NotFound, .. }) => {
            Err(Error::Missing { path, although: "CURRENT names it".to_owned() })
        }
        Err(error) => Err(error),
    }
}

/// Applies all edits of a manifest.
pub(crate) fn replay(number: u64, mut bytes: LogBytes) -> Result<Recovered, Error> {
    let path = bytes.path().clone();
    let corrupt = |offset: u64, what, expected: &str, found: &str| Error::Corruption {
        path: path.clone(),
        offset,
        what,
        expected: expected.to_owned(),
        found: found.to_owned(),
    };
    let header = Header::read(LogKind::Manifest, &mut bytes)?;
    let Some(header) = header.filter(|header| header.log.number == number) else {
        return Err(corrupt(0, "manifest header", "the header of this manifest", "other bytes"));
    };
    let mut frames = Frames::new(&mut bytes, header);
    let mut recovered = Recovered { number, secret: header.log.secret, ..Recovered::default() };
    loop {
        let offset = frames.offset();
        let Some(frame) = frames.next_frame()? else { break };
        let edit = Edit::decode(frame.payload);
        let edit = edit.ok_or_else(|| corrupt(offset, "manifest edit", "an edit", "bytes that are none"))?;
        if !recovered.apply(edit) {
            return Err(corrupt(
                offset,
                "manifest edit",
                "one that fits those before",
                "an unknown table removed or a known one added",
            ));
        }
    }
    // An edit is durable before the next is written, so only the last can be torn.
    let (offset, expected) = (frames.offset(), frames.expected());
    let lost = Leftovers::find(&mut bytes, offset, header.log, expected)?;
    if lost.durable >= expected || expected == header.first_sequence {
        return Err(missing_frame(&mut bytes, header.log, offset, expected));
    }
    if recovered.first_sequence == 0 {
        return Err(corrupt(0, "manifest edits", "one with the beginning of the log", "none"));
    }
    Ok(recovered)
}

impl Recovered {
    /// What one edit says; `None` if it does not fit together.
    pub(crate) fn of(everything: Edit) -> Option<Recovered> {
        let mut recovered = Recovered::default();
        recovered.apply(everything).then_some(recovered)
    }

    /// Where the store's log begins.
    pub(crate) const fn log_start(&self) -> LogStart {
        let Recovered { first_wal, first_sequence, secret, log_begun, .. } = *self;
        LogStart { first_wal, first_sequence, secret, is_there: log_begun }
    }

    fn apply(&mut self, edit: Edit) -> bool {
        self.next_file = edit.next_file.unwrap_or(self.next_file);
        self.first_wal = edit.first_wal.unwrap_or(self.first_wal);
        self.first_sequence = edit.first_sequence.unwrap_or(self.first_sequence);
        self.log_begun |= edit.log_begun;
        self.dropped_up_to = self.dropped_up_to.max(edit.dropped_up_to);
        let mut sound = edit.removed.iter().all(|number| self.tables.remove(number).is_some());
        for (level, meta) in edit.added {
            sound &= self.tables.insert(meta.number, (level, meta)).is_none();
        }
        sound
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
