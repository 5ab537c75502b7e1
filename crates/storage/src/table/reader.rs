use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use ladoga_env::{Disk, File, FilePart, OpenMode};
use ladoga_model::Stamp;

use super::cache::{BlockCache, CacheEntry};
use super::{
    Block, BlockHandle, FOOTER_BYTES, Filter, Footer, Index, Loaded, Resident, TableMeta, Unpacked,
    decode_stored,
};
use crate::blob::{BlobRef, BlobRegistry};
use crate::error::Error;
use crate::paths;
use crate::prefetch::{prefetch, prefetch_line};
use crate::record::{Kind, Record};
use crate::stats::Counters;

/// What all tables of a store share.
pub(crate) struct TableShared {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub cache: BlockCache,
    pub counters: Arc<Counters>,
    pub blobs: Arc<BlobRegistry>,
}

#[cfg(test)]
impl TableShared {
    /// Of a store in `/data` on this disk, with a cache of 1 MiB in which nothing is pinned.
    pub(crate) fn on(disk: Arc<dyn Disk>) -> Arc<TableShared> {
        let (dir, counters) = (PathBuf::from("/data"), Arc::default());
        Arc::new(TableShared {
            disk: disk.clone(),
            dir: dir.clone(),
            cache: BlockCache::new(1 << 20, 0),
            blobs: BlobRegistry::new(disk, dir, 0, Arc::clone(&counters)),
            counters,
        })
    }
}

/// How far a read may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// What is in our memory.
    Memory,
    /// What is in memory, ours or the system's; never waits for the disk.
    PageCache,
    /// The disk too.
    Disk,
    /// The disk too; what is read is not worth caching.
    Once,
}

/// A point read's answer.
pub(crate) enum TableGet {
    Found {
        stamp: Stamp,
        kind: Kind,
        value: Bytes,
    },
    Absent,
    /// It takes what the read may not reach.
    Lacks(MissingBlock),
}

/// What a read that may not reach far enough needs.
#[derive(Clone)]
pub(crate) enum MissingBlock {
    /// A data block, as it stands in the file.
    Block(FilePart),
    /// The index and the filter, and then perhaps a block.
    Parts,
}

/// One table. Its file is removed when the last one to use it is done with an obsolete one.
pub(crate) struct Table {
    meta: TableMeta,
    path: PathBuf,
    shared: Arc<TableShared>,
    file: OnceLock<Arc<dyn File>>,
    /// Here and not elsewhere, because each step to another place is a wait for the memory.
    pub(super) pinned: OnceLock<Resident>,
    obsolete: AtomicBool,
    /// Keeps the blob files that the records name. By number: there may be half a million.
    blobs: Vec<BlobRef>,
}

/// The place in the cache of a table's index and filter; no block begins there.
const RESIDENT: u64 = u64::MAX;

impl Table {
    pub(crate) fn new(shared: &Arc<TableShared>, meta: TableMeta) -> Arc<Table> {
        let mut blobs: Vec<_> = meta.blobs.iter().map(|&blob| shared.blobs.refer(blob)).collect();
        blobs.sort_unstable_by_key(BlobRef::number);
        // There whatever else there is room for: long keys leave less to indexes.
        shared.cache.hold(meta.memory_bytes() as u64);
        Arc::new(Table {
            path: paths::table(&shared.dir, meta.number),
            shared: shared.clone(),
            file: OnceLock::new(),
            pinned: OnceLock::new(),
            obsolete: AtomicBool::new(false),
            blobs,
            meta,
        })
    }

    pub(crate) const fn meta(&self) -> &TableMeta {
        &self.meta
    }

    pub(crate) const fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Loads what reads from memory need. If it fails, the first read that needs it fails again and reports the error.
    pub(crate) fn warm(self: &Arc<Self>) {
        if let Err(error) = self.resident(Access::Once) {
            tracing::warn!(%error, "could not load a table's index");
        }
    }

    /// Says that no version names this table any more.
    pub(crate) fn retire(&self) {
        self.obsolete.store(true, Ordering::SeqCst);
    }

    /// Another reference to the blob file `number`, which a record of this table names.
    pub(crate) fn blob_ref(&self, number: u64) -> Option<BlobRef> {
        let index = self.blobs.binary_search_by_key(&number, BlobRef::number).ok()?;
        Some(self.blobs[index].clone())
    }

    /// Prefetches this table, for [`Table::prefetch_lines`].
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self);
    }

    /// Prefetches what [`Table::get`] looks at first; of the index only if that is likely to be needed.
    #[inline]
    pub(crate) fn prefetch_lines(&self, hash: u64, index: bool) {
        if let Some(resident) = self.pinned.get() {
            resident.filter.prefetch(hash);
            if index {
                resident.index.prefetch();
                // Where its counts are, too.
                self.file.get().iter().for_each(|file| prefetch_line(Arc::as_ptr(file).addr()));
            }
        }
    }

    /// Reads `key`; `hash` is its hash.
    pub(crate) fn get(self: &Arc<Self>, hash: u64, key: &[u8], access: Access) -> Result<TableGet, Error> {
        let loaded;
        let resident = match self.pinned.get() {
            Some(pinned) => pinned,
            None => match self.resident(access)? {
                Some(resident) => {
                    loaded = resident;
                    &loaded
                }
                None => return Ok(TableGet::Lacks(MissingBlock::Parts)),
            },
        };
        if !resident.filter.may_contain(hash) {
            self.shared.counters.reads.mine().filter_negatives.add(1);
            return Ok(TableGet::Absent);
        }
        let (offset, size) = resident.index.place(resident.index.block_of(key));
        match self.block(offset, size, access)? {
            Some(block) => self.find_in(&block, offset, hash, key),
            None => Ok(TableGet::Lacks(self.lack_of(offset, size))),
        }
    }

    fn lack_of(&self, offset: u64, size: u64) -> MissingBlock {
        match self.file.get() {
            Some(file) => {
                MissingBlock::Block(FilePart { file: Arc::clone(file), offset, len: size as usize })
            }
            // To be opened, which may wait for the disk too.
            None => MissingBlock::Parts,
        }
    }

    /// Looks for `key` in the block at `offset`.
    #[inline]
    pub(crate) fn find_in(
        &self,
        block: &Block,
        offset: u64,
        hash: u64,
        key: &[u8],
    ) -> Result<TableGet, Error> {
        match block.find(hash, key) {
            Ok(Some(Record { stamp, kind, value, .. })) => {
                Ok(TableGet::Found { stamp, kind, value: block.share(value) })
            }
            Ok(None) => Ok(TableGet::Absent),
            Err(_) => Err(self.broken(offset)),
        }
    }

    /// The index and the filter; `None` if loading them takes the disk, which `access` does not permit.
    pub(crate) fn resident(self: &Arc<Self>, access: Access) -> Result<Option<Loaded>, Error> {
        if self.pinned.get().is_some() {
            return Ok(Some(Loaded::Pinned(self.clone())));
        }
        let key = (self.meta.number, RESIDENT);
        if let Some(resident) = self.shared.cache.resident(key) {
            return Ok(Some(Loaded::Cached(resident)));
        }
        if matches!(access, Access::Memory | Access::PageCache) {
            return Ok(None);
        }
        let resident = self.load_resident()?;
        let bytes = resident.memory_bytes() as u64;
        if self.shared.cache.pin(bytes) {
            if self.pinned.set(resident).is_err() {
                self.shared.cache.unpin(bytes);
            }
            return Ok(Some(Loaded::Pinned(self.clone())));
        }
        let resident = Arc::new(resident);
        self.shared.cache.insert(key, CacheEntry::Resident(resident.clone()));
        Ok(Some(Loaded::Cached(resident)))
    }

    fn load_resident(&self) -> Result<Resident, Error> {
        let footer = self.footer()?;
        let filter = self.read_handle(footer.filter)?;
        let filter = Filter::parse(&filter).ok_or_else(|| self.broken(footer.filter.offset))?;
        let index = self.read_handle(footer.index)?;
        let index = Index::parse(&index, footer.index_format());
        let index = index.ok_or_else(|| self.broken(footer.index.offset))?;
        Ok(Resident { index, filter })
    }

    pub(crate) fn footer(&self) -> Result<Footer, Error> {
        let file = self.file()?;
        let file_bytes = file.len().map_err(|error| self.counted(Error::io("measure", &self.path)(error)))?;
        if file_bytes != self.meta.file_bytes {
            return Err(self.counted(Error::Corruption {
                path: self.path.clone(),
                offset: file_bytes,
                what: "table length",
                expected: self.meta.file_bytes.to_string(),
                found: file_bytes.to_string(),
            }));
        }
        let offset = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let mut bytes = vec![0; FOOTER_BYTES.min(file_bytes as usize)];
        file.read_exact_at(&mut bytes, offset).map_err(|error| self.unread(offset, error))?;
        Footer::decode(&self.path, file_bytes, &bytes).map_err(|error| self.counted(error))
    }

    pub(crate) fn read_handle(&self, handle: BlockHandle) -> Result<Bytes, Error> {
        let mut stored = vec![0; handle.size as usize];
        let read = self.file()?.read_exact_at(&mut stored, handle.offset);
        read.map_err(|error| self.unread(handle.offset, error))?;
        Ok(self.checked(handle.offset, stored)?.bytes)
    }

    fn checked(&self, offset: u64, stored: Vec<u8>) -> Result<Unpacked, Error> {
        decode_stored(&self.path, self.meta.number, offset, stored).map_err(|error| self.counted(error))
    }

    /// A data block, from the cache or the file; `None` if reading it takes the disk, which `access` does not permit.
    pub(crate) fn block(&self, offset: u64, size: u64, access: Access) -> Result<Option<Block>, Error> {
        let key = (self.meta.number, offset);
        if let Some(block) = self.shared.cache.block(key) {
            if access != Access::Once {
                self.shared.counters.reads.mine().cache_hits.add(1);
            }
            return Ok(Some(block));
        }
        let Some(stored) = self.read_stored(offset, size, access)? else { return Ok(None) };
        if access == Access::Once {
            return self.unpacked(offset, stored).map(Some);
        }
        self.kept(offset, stored).map(Some)
    }

    /// The data block that the caller has read, or its error.
    pub(crate) fn accept(&self, part: &FilePart, bytes: io::Result<Vec<u8>>) -> Result<Block, Error> {
        let stored = bytes.map_err(|error| self.unread(part.offset, error))?;
        self.count_read(part.len as u64);
        self.kept(part.offset, stored)
    }

    fn kept(&self, offset: u64, stored: Vec<u8>) -> Result<Block, Error> {
        let block = self.unpacked(offset, stored)?;
        self.shared.counters.reads.mine().cache_misses.add(1);
        self.shared.cache.insert((self.meta.number, offset), CacheEntry::Block(block.clone()));
        Ok(block)
    }

    fn unpacked(&self, offset: u64, stored: Vec<u8>) -> Result<Block, Error> {
        let Unpacked { bytes, held_bytes } = self.checked(offset, stored)?;
        Block::parse(bytes, held_bytes).ok_or_else(|| self.broken(offset))
    }

    fn read_stored(&self, offset: u64, size: u64, access: Access) -> Result<Option<Vec<u8>>, Error> {
        // Checked when the index was read: blocks follow each other without gaps, before the filter.
        if offset + size > self.meta.file_bytes {
            return Err(self.broken(offset));
        }
        let mut stored = Vec::new();
        match access {
            Access::Memory => return Ok(None),
            Access::PageCache => {
                let Some(file) = self.file.get() else { return Ok(None) };
                stored.resize(size as usize, 0);
                let read = file.try_read_exact_at(&mut stored, offset);
                if !read.map_err(|error| self.unread(offset, error))? {
                    return Ok(None);
                }
            }
            Access::Disk | Access::Once => {
                stored.resize(size as usize, 0);
                let read = self.file()?.read_exact_at(&mut stored, offset);
                read.map_err(|error| self.unread(offset, error))?;
            }
        }
        self.count_read(size);
        Ok(Some(stored))
    }

    fn count_read(&self, bytes: u64) {
        self.shared.counters.reads.mine().block_reads.add(1);
        self.shared.counters.reads.mine().block_read_bytes.add(bytes);
    }

    fn file(&self) -> Result<&Arc<dyn File>, Error> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        match self.shared.disk.open(&self.path, OpenMode::Read) {
            Ok(file) => Ok(self.file.get_or_init(|| file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(self.counted(missing_table(self.path.clone())))
            }
            Err(error) => Err(self.counted(Error::io("open", &self.path)(error))),
        }
    }

    fn unread(&self, offset: u64, error: io::Error) -> Error {
        self.counted(Error::io_at("read", &self.path, offset)(error))
    }

    /// The error for bytes that pass their checksum and are not what the format asks for.
    pub(crate) fn broken(&self, offset: u64) -> Error {
        self.counted(Error::Corruption {
            path: self.path.clone(),
            offset,
            what: "block",
            expected: "a block of the table format".to_owned(),
            found: "bytes that are none".to_owned(),
        })
    }

    fn counted(&self, error: Error) -> Error {
        self.shared.counters.count_failed_read(&error);
        error
    }
}

/// The error for a table that the manifest names and that is not there.
pub(crate) fn missing_table(path: PathBuf) -> Error {
    Error::Missing { path, although: "the manifest names it".to_owned() }
}

impl Drop for Table {
    fn drop(&mut self) {
        let cache = &self.shared.cache;
        if let Some(pinned) = self.pinned.get() {
            cache.unpin(pinned.memory_bytes() as u64);
        }
        cache.unpin(self.meta.memory_bytes() as u64);
        if !*self.obsolete.get_mut() {
            return;
        }
        cache.remove((self.meta.number, RESIDENT));
        // What cannot be removed now is found as an orphan at the next open.
        if let Err(error) = self.shared.disk.remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "could not remove an obsolete table");
        }
    }
}
