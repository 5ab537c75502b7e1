use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ladoga_storage::{LargeCheck, LargeValue, OfflineStore, StoreFile};

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
        self.expect_room_for([((url, taken_ms), listing)])?;
        let mut taking = Taking::begin(self, listing)?;
        let total_bytes = taking.missing_bytes();
        progress(Progress { done_bytes: 0, total_bytes });
        for (table, blobs) in listing.tables.tables() {
            taking.table(table, blobs, source, &mut |done_bytes| {
                progress(Progress { done_bytes, total_bytes });
            })?;
        }
        let mut taken = taking.taken;
        taken.kept_files = listing.files.len() as u64 - taken.new_files;
        Ok((node_of((url, taken_ms), listing, &|tag| taking.stored[&tag]), taken))
    }

    /// Fails if the list of a backup of these checkpoints could not be read. Names have one length: so it is known before hours of
    /// fetching.
    pub fn expect_room_for<'l>(
        &self,
        parts: impl IntoIterator<Item = ((&'l str, u64), &'l Listing)>,
    ) -> Result<(), Error> {
        let any_name = |tag| StoredName { tag, hash: 0 };
        let nodes = parts.into_iter().map(|(of, listing)| node_of(of, listing, &any_name));
        self.expect_room_for_list(nodes.map(|node| node.list_bytes()).fold(0, u64::saturating_add))
    }
}

fn node_of(
    (url, taken_ms): (&str, u64),
    listing: &Listing,
    stored: &dyn Fn(Tag) -> StoredName,
) -> NodeBackup {
    let file =
        |listed: &Listed| StoredFile { file: listed.file, bytes: listed.bytes, stored: stored(listed.tag) };
    let files = listing.files.iter().map(file).collect();
    let (url, store, tables) = (url.to_owned(), listing.store, listing.tables.clone());
    NodeBackup { url, store, taken_ms, tables, files, log: None }
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
        let tags: BTreeMap<Tag, u64> =
            listing.files.iter().map(|listed| (listed.tag, listed.bytes)).collect();
        // One of another length is not the file that it says it is: it is fetched again.
        let is_right = |&(name, bytes): &(StoredName, u64)| tags.get(&name.tag).is_none_or(|it| *it == bytes);
        let stored = repository.stored()?.into_iter().filter(is_right);
        let stored = stored.map(|(name, _)| (name.tag, name)).collect();
        Ok(Taking { repository, listed, stored, listing, taken: Taken::default() })
    }

    fn is_stored(&self, file: StoreFile) -> bool {
        self.stored.contains_key(&self.listed[&file].tag)
    }

    fn missing_bytes(&self) -> u64 {
        let missing = self.listed.values().filter(|listed| !self.stored.contains_key(&listed.tag));
        missing.map(|listed| listed.bytes).fold(0, u64::saturating_add)
    }

    /// Takes a table over, and the large values it names. It is fetched and verified first, because only it says what a large value is,
    /// and published last; each large value is published as soon as it is verified, so that what waits is never more than one of them.
    fn table(
        &mut self,
        table: u64,
        blobs: &[u64],
        source: &mut dyn Source,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let file = StoreFile::Table(table);
        let is_missing = |&blob: &u64| !self.is_stored(StoreFile::Blob(blob));
        let missing: BTreeSet<u64> = blobs.iter().copied().filter(is_missing).collect();
        if missing.is_empty() && self.is_stored(file) {
            return Ok(());
        }
        let fetched = if self.is_stored(file) { None } else { Some(self.fetch(file, source, progress)?) };
        let larges = self.check_table(table, &missing, fetched.as_ref())?;
        for blob in missing {
            let incoming = self.fetch(StoreFile::Blob(blob), source, progress)?;
            let first = LargeValue { file: blob, bytes: 0, crc: 0 };
            self.check_blob(larges.range(first..).take_while(|large| large.file == blob), &incoming)?;
            self.publish(StoreFile::Blob(blob), incoming)?;
        }
        fetched.map_or(Ok(()), |fetched| self.publish(file, fetched))
    }

    fn publish(&mut self, file: StoreFile, incoming: Incoming) -> Result<(), Error> {
        let tag = self.listed[&file].tag;
        let name = StoredName { tag, hash: incoming.hash() };
        incoming.publish(&self.repository.file(name))?;
        self.stored.insert(tag, name);
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

    /// Verifies a table, all but the large values that are missing; answers what those are to be. Of the others, which were verified when
    /// they came, it is known how long they are: none is opened.
    fn check_table(
        &self,
        table: u64,
        missing: &BTreeSet<u64>,
        fetched: Option<&Incoming>,
    ) -> Result<BTreeSet<LargeValue>, Error> {
        let stored = |file: StoreFile| self.repository.file(self.stored[&self.listed[&file].tag]);
        let file = StoreFile::Table(table);
        let path = fetched.map_or_else(|| stored(file), |fetched| fetched.path().clone());
        let view = View::new(self.repository.disk(), 0, [(file, path)]);
        let (disk, tables) = (Arc::clone(&view) as _, &self.listing.tables);
        let mut larges = BTreeSet::new();
        let errors = OfflineStore::check_table(disk, view.dir(), tables, table, &mut |large| {
            larges.insert(large);
            LargeCheck::Nothing
        });
        match errors.into_iter().next() {
            Some(error) if fetched.is_some() => return Err(unsound(&view, error)),
            Some(error) => return Err(view.named(error).into()),
            None => {}
        }
        // A file that is not in the list was found above: its table does not name it, either.
        let there = larges.extract_if(.., |large| !missing.contains(&large.file));
        let listed = there.map(|large| (large, self.listed.get(&StoreFile::Blob(large.file))));
        for (large, listed) in listed {
            let (expected, found) = (OfflineStore::large_file_bytes(large), listed.map_or(0, |it| it.bytes));
            if expected != found {
                let (name, table) = (StoreFile::Blob(large.file).path(), file.path());
                let (name, table) = (name.display(), table.display());
                let what = format!("{name} has {found} bytes, expected {expected} by what {table} says");
                return Err(Error::Source(format!("{NOT_SOUND}: {what}")));
            }
        }
        Ok(larges)
    }

    /// Verifies a large value, as the records of its table name it.
    fn check_blob<'l>(
        &self,
        larges: impl Iterator<Item = &'l LargeValue>,
        incoming: &Incoming,
    ) -> Result<(), Error> {
        for large in larges {
            let files = [(StoreFile::Blob(large.file), incoming.path().clone())];
            let view = View::new(self.repository.disk(), 0, files);
            let checked = OfflineStore::check_large_value(Arc::clone(&view) as _, view.dir(), *large);
            checked.map_err(|error| unsound(&view, error))?;
        }
        Ok(())
    }
}

const NOT_SOUND: &str = "the node sent a file that is not sound, so nothing was backed up";

/// What is wrong with a file that was fetched, by the name that it has on its node: here it is about to be removed. If it is this disk
/// that does not give it back, the node has no part in that.
fn unsound(view: &View, error: ladoga_storage::Error) -> Error {
    if !error.is_corruption() {
        return view.named(error).into();
    }
    Error::Source(format!("{NOT_SOUND}: {}", view.unviewed(error)))
}
