use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ladoga_storage::{OfflineStore, StoreFile};

use crate::error::Error;
use crate::listing::{Listed, Listing, Tag};
use crate::repository::{Incoming, NodeBackup, Repository, StoredFile, StoredName, Writing};
use crate::view::View;
use crate::{PIECE_BYTES_MAX, Progress};

/// Where the bytes of a checkpoint come from.
pub trait Source {
    /// Bytes of a file from `offset` on: at least one and at most [`PIECE_BYTES_MAX`].
    fn read(&mut self, file: StoreFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error>;
}

/// What a part of a backup cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Files that were there already.
    pub kept_files: u64,
    /// Files that were copied.
    pub new_files: u64,
    /// Bytes of those.
    pub new_bytes: u64,
}

impl Taken {
    /// With what another part cost.
    #[must_use]
    pub const fn and(self, other: Taken) -> Taken {
        Taken {
            kept_files: self.kept_files + other.kept_files,
            new_files: self.new_files + other.new_files,
            new_bytes: self.new_bytes + other.new_bytes,
        }
    }
}

impl Repository {
    /// Takes the checkpoint of a node over: files that are there are neither read nor copied; each of the others is verified, block
    /// by block, before it gets its name. Nothing names them before [`Repository::publish`].
    pub fn take(
        &self,
        _: &Writing,
        (url, taken_ms): (&str, u64),
        listing: &Listing,
        source: &mut dyn Source,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(NodeBackup, Taken), Error> {
        let mut taking = Taking::begin(self, listing)?;
        let total_bytes = taking.missing_bytes();
        progress(Progress { done_bytes: 0, total_bytes });
        for (table, blobs) in listing.tables.tables() {
            taking.table(table, blobs, source, &mut |done_bytes| {
                progress(Progress { done_bytes, total_bytes });
            })?;
        }
        let stored = |listed: &Listed| StoredFile {
            file: listed.file,
            bytes: listed.bytes,
            stored: taking.stored[&listed.tag],
        };
        let files = listing.files.iter().map(stored).collect();
        let (url, tables) = (url.to_owned(), listing.tables.clone());
        let mut taken = taking.taken;
        taken.kept_files = listing.files.len() as u64 - taken.new_files;
        Ok((NodeBackup { url, taken_ms, tables, files, log: None }, taken))
    }
}

/// A checkpoint on its way in.
struct Taking<'r> {
    repository: &'r Repository,
    listed: BTreeMap<StoreFile, &'r Listed>,
    stored: BTreeMap<Tag, StoredName>,
    listing: &'r Listing,
    taken: Taken,
}

impl<'r> Taking<'r> {
    fn begin(repository: &'r Repository, listing: &'r Listing) -> Result<Taking<'r>, Error> {
        let listed: BTreeMap<_, _> = listing.files.iter().map(|listed| (listed.file, listed)).collect();
        let mut stored = repository.stored()?;
        // One of another length is not the file that it says it is: it is fetched again.
        let tags: BTreeMap<Tag, u64> =
            listing.files.iter().map(|listed| (listed.tag, listed.bytes)).collect();
        let mut wrong = Vec::new();
        for (tag, name) in &stored {
            if let Some(&bytes) = tags.get(tag)
                && length(repository, *name)? != bytes
            {
                wrong.push(*tag);
            }
        }
        stored.retain(|tag, _| !wrong.contains(tag));
        Ok(Taking { repository, listed, stored, listing, taken: Taken::default() })
    }

    fn is_stored(&self, file: StoreFile) -> bool {
        self.stored.contains_key(&self.listed[&file].tag)
    }

    fn missing_bytes(&self) -> u64 {
        let missing = self.listed.values().filter(|listed| !self.stored.contains_key(&listed.tag));
        missing.map(|listed| listed.bytes).fold(0, u64::saturating_add)
    }

    /// Takes a table over, and the large values it names. They are verified together: only the table says what a large value is.
    fn table(
        &mut self,
        table: u64,
        blobs: &[u64],
        source: &mut dyn Source,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let files = blobs.iter().map(|&blob| StoreFile::Blob(blob)).chain([StoreFile::Table(table)]);
        let missing: Vec<StoreFile> = files.filter(|&file| !self.is_stored(file)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut incoming = BTreeMap::new();
        for file in missing {
            if incoming.contains_key(&file) {
                continue;
            }
            incoming.insert(file, self.fetch(file, source, progress)?);
        }
        self.check(table, blobs, &incoming)?;
        for (file, fetched) in incoming {
            let tag = self.listed[&file].tag;
            let name = StoredName { tag, hash: fetched.hash() };
            fetched.publish(&self.repository.file(name))?;
            self.stored.insert(tag, name);
        }
        Ok(())
    }

    fn fetch(
        &mut self,
        file: StoreFile,
        source: &mut dyn Source,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Incoming, Error> {
        let &Listed { bytes, tag, .. } = self.listed[&file];
        let mut incoming =
            Incoming::begin(self.repository, self.repository.files_dir().join(format!("{tag}.new")))?;
        let mut offset = 0;
        while offset < bytes {
            let wanted = (bytes - offset).min(PIECE_BYTES_MAX as u64) as usize;
            let piece = source.read(file, offset, wanted)?;
            if piece.is_empty() || piece.len() > wanted {
                let (name, got) = (file.path(), piece.len());
                let what = format!("{} ends after {offset} of {bytes} bytes", name.display());
                let what = if got == 0 { what } else { format!("{got} bytes were sent for {wanted}") };
                return Err(Error::Source(what));
            }
            incoming.write(&piece)?;
            offset += piece.len() as u64;
            self.taken.new_bytes += piece.len() as u64;
            progress(self.taken.new_bytes);
        }
        incoming.close()?;
        self.taken.new_files += 1;
        Ok(incoming)
    }

    fn check(
        &self,
        table: u64,
        blobs: &[u64],
        incoming: &BTreeMap<StoreFile, Incoming>,
    ) -> Result<(), Error> {
        let path = |file: StoreFile| -> PathBuf {
            let fetched = incoming.get(&file).map(|fetched| fetched.path().clone());
            fetched.unwrap_or_else(|| self.repository.file(self.stored[&self.listed[&file].tag]))
        };
        let files = blobs.iter().map(|&blob| StoreFile::Blob(blob)).chain([StoreFile::Table(table)]);
        let view = View::new(self.repository.disk(), 0, files.map(|file| (file, path(file))));
        let is_new = |blob: u64| incoming.contains_key(&StoreFile::Blob(blob));
        let (disk, tables) = (Arc::clone(&view) as _, &self.listing.tables);
        let errors = OfflineStore::check_table(disk, view.dir(), tables, table, &is_new);
        let Some(error) = errors.into_iter().next() else { return Ok(()) };
        // By the name that it has on its node: here it is about to be removed.
        let error = view.unviewed(error);
        Err(Error::Source(format!(
            "the node sent a file that is not sound, so nothing was backed up: {error}"
        )))
    }
}

fn length(repository: &Repository, name: StoredName) -> Result<u64, Error> {
    let path = repository.file(name);
    let file = repository.disk().open(&path, ladoga_env::OpenMode::Read).map_err(Error::io("open", &path))?;
    file.len().map_err(Error::io("measure", &path))
}
