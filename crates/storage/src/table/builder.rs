use std::path::PathBuf;
use std::sync::Arc;

use ladoga_env::{Disk, File, OpenMode};

use super::block::BlockBuilder;
use super::footer::Footer;
use super::index::{IndexBuilder, separator};
use super::pages::BlockLengths;
use super::stored::{BlockHandle, encode_stored};
use super::{BLOCK_BYTES, TableMeta, filter};
use crate::coding::key_hash;
use crate::error::Error;
use crate::options::Compression;
use crate::record::Record;

/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// A separator is at most this share of its block.
const SEPARATOR_SHARE: usize = 16;
/// A block whose separator would be long is filled up to this length.
const LONG_BLOCK_BYTES_MAX: usize = 4 * BLOCK_BYTES;

/// Writes a table, record by record in the order of keys. Nothing names the file before [`TableBuilder::finish`], so
/// one that was left half-written is an orphan.
///
/// Protocol: `add+ finish`.
pub(crate) struct TableBuilder {
    file: Arc<dyn File>,
    path: PathBuf,
    meta: TableMeta,
    compression: Compression,
    block: BlockBuilder,
    block_bytes_max: usize,
    lengths: BlockLengths,
    /// Between the last key of the block before and the first of this one.
    block_separator: Vec<u8>,
    last_key: Vec<u8>,
    index: IndexBuilder,
    hashes: Vec<u64>,
    pending: Vec<u8>,
    written: u64,
}

impl TableBuilder {
    pub(crate) fn create(
        disk: &dyn Disk,
        path: PathBuf,
        number: u64,
        compression: Compression,
    ) -> Result<TableBuilder, Error> {
        let file = disk.open(&path, OpenMode::CreateNew).map_err(Error::io("create", &path))?;
        Ok(TableBuilder {
            file,
            path,
            meta: TableMeta::of_nothing(number),
            compression,
            block: BlockBuilder::default(),
            block_bytes_max: BLOCK_BYTES,
            lengths: BlockLengths::default(),
            block_separator: Vec::new(),
            last_key: Vec::new(),
            index: IndexBuilder::new(),
            hashes: Vec::new(),
            pending: Vec::with_capacity(WRITE_BYTES + BLOCK_BYTES * 2),
            written: 0,
        })
    }

    /// Adds a record.
    ///
    /// # Panics
    /// If its key is not behind the last one: a table that is out of order would lose keys.
    pub(crate) fn add(&mut self, record: &Record<'_>) -> Result<(), Error> {
        assert!(self.last_key.as_slice() < record.key, "records come in the order of their keys");
        if self.ends_block_before(record) {
            self.finish_block()?;
        }
        if self.block.is_empty() {
            self.block_bytes_max = self.lengths.raw_bytes(self.offset());
            self.block_separator.clear();
            self.block_separator.extend_from_slice(separator(&self.last_key, record.key));
        }
        let hash = key_hash(record.key);
        self.block.add(hash, record);
        self.hashes.push(hash);
        self.last_key.clear();
        self.last_key.extend_from_slice(record.key);
        self.meta.count(record);
        Ok(())
    }

    /// Whether the open block is full. Keys with long common prefixes need long separators, and the index has one for each
    /// block: then blocks become longer, so that there are fewer.
    fn ends_block_before(&self, record: &Record<'_>) -> bool {
        let bytes = self.block.bytes_with(record);
        if self.block.is_empty() || bytes <= self.block_bytes_max {
            return false;
        }
        let separator_bytes = separator(&self.last_key, record.key).len();
        separator_bytes * SEPARATOR_SHARE <= self.block.bytes() || bytes > LONG_BLOCK_BYTES_MAX
    }

    fn offset(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Bytes so far: the finished blocks, the open one, and the index and the filter, which are written at the end.
    pub(crate) fn bytes(&self) -> u64 {
        let at_end = self.block.bytes() + self.index.bytes() + filter::bytes(self.hashes.len());
        self.offset() + at_end as u64
    }

    fn finish_block(&mut self) -> Result<(), Error> {
        let offset = self.offset();
        let raw = self.block.finish();
        let packed_max = self.lengths.packed_max(raw.len());
        let (number, compression) = (self.meta.number, self.compression);
        let stored = encode_stored(&mut self.pending, number, offset, raw, compression, packed_max);
        self.lengths.learn(raw.len(), stored.payload_bytes);
        self.block.clear();
        self.index.add(&self.block_separator, offset);
        if self.pending.len() >= WRITE_BYTES { self.write_pending() } else { Ok(()) }
    }

    fn write_pending(&mut self) -> Result<(), Error> {
        self.file.write_all_at(&self.pending, self.written).map_err(Error::io_at(
            "write",
            &self.path,
            self.written,
        ))?;
        // Written back as it comes: a sync of the whole table at once would hold up the log's.
        self.file.start_writeback(self.written, self.pending.len() as u64);
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn append(&mut self, raw: &[u8]) -> BlockHandle {
        let offset = self.offset();
        encode_stored(&mut self.pending, self.meta.number, offset, raw, Compression::None, 0).handle
    }

    /// Completes the file and makes it durable; its name is durable once the directory is synced.
    pub(crate) fn finish(mut self) -> Result<TableMeta, Error> {
        assert!(self.meta.records > 0, "an empty table has no reason to be");
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        let data_end = self.offset();
        let filter = self.append(&filter::build(&self.hashes));
        let index = std::mem::replace(&mut self.index, IndexBuilder::new()).finish(data_end);
        let index = self.append(&index);
        self.meta.finish(&self.last_key);
        self.meta.file_bytes = 0;
        let mut properties = Vec::new();
        self.meta.encode(&mut properties);
        if !self.meta.expiries.is_empty() {
            self.meta.expiries.encode(&mut properties);
        }
        let properties = self.append(&properties);
        Footer::new(filter, index, properties).encode(&mut self.pending);
        self.write_pending()?;
        self.file.sync_data().map_err(Error::io("sync", &self.path))?;
        self.meta.file_bytes = self.written;
        Ok(self.meta)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Index, IndexFormat, Table, TableGet, TableShared};
    use super::*;
    use crate::coding::put_short_bytes;
    use crate::paths;
    use crate::record::Kind;
    use ladoga_model::Stamp;

    fn key(number: u32) -> Vec<u8> {
        [&[b'k'; 900][..], format!("{number:08}").as_bytes()].concat()
    }

    /// A table of long keys that share most, and what all tables share.
    fn table_of_long_keys(disk: &Arc<dyn Disk>) -> (Arc<TableShared>, TableMeta) {
        let shared = TableShared::on(disk.clone());
        disk.create_dir_all(&paths::tables_dir(&shared.dir)).expect("room");
        let path = paths::table(&shared.dir, 1);
        let mut builder = TableBuilder::create(&**disk, path, 1, Compression::Lz4).expect("an empty disk");
        for number in 0..2_000 {
            let (key, value) = (key(number), number.to_be_bytes());
            let record = Record { key: &key, stamp: Stamp::default(), kind: Kind::Value, value: &value };
            builder.add(&record).expect("room");
        }
        (shared, builder.finish().expect("room"))
    }

    fn check_table_of_long_keys(shared: &Arc<TableShared>, meta: TableMeta) {
        let table = Table::new(shared, meta);
        for number in 0..2_000 {
            let key = key(number);
            let found = table.get(key_hash(&key), &key, Access::Disk).expect("a sound disk");
            let TableGet::Found { value, .. } = found else { panic!("{number} is lost") };
            assert_eq!(*value, number.to_be_bytes());
        }
    }

    #[test]
    fn keys_that_share_most_have_an_index_that_is_small() {
        let (env, _, _) = ladoga_env::sim::env(1);
        let (shared, meta) = table_of_long_keys(&env.disk);
        let table = Table::new(&shared, meta.clone());
        let resident = table.resident(Access::Disk).expect("a sound disk").expect("the disk may be used");
        let (blocks, bytes) = (resident.index.blocks(), resident.index.memory_bytes());
        assert!(blocks > 100, "{blocks} blocks");
        // Whole separators take more than 900 bytes each.
        assert!(bytes < blocks * 100, "{bytes} bytes for {blocks} blocks");
        let footer = table.footer().expect("a sound disk");
        assert!(
            (footer.index.size as usize) < blocks * 50,
            "{} bytes for {blocks} blocks",
            footer.index.size
        );
        check_table_of_long_keys(&shared, meta);
    }

    /// Up to format 2, the separators of an index were stored whole. Tables of format 1 are those of format 2 without padding,
    /// which each block declares by itself.
    #[test]
    fn tables_of_the_formats_before_are_read() {
        [1, 2].into_iter().for_each(check_table_of_format);
    }

    fn check_table_of_format(format: u32) {
        let (env, _, _) = ladoga_env::sim::env(1);
        let (shared, mut meta) = table_of_long_keys(&env.disk);
        let table = Table::new(&shared, meta.clone());
        let footer = table.footer().expect("a sound disk");
        let resident = table.resident(Access::Disk).expect("a sound disk").expect("the disk may be used");
        let blocks = resident.index.blocks();
        let mut index = (blocks as u32).to_le_bytes().to_vec();
        for block in 0..blocks {
            let (offset, size) = resident.index.place(block);
            let block = table.block(offset, size, Access::Disk).expect("a sound disk").expect("a block");
            put_short_bytes(&mut index, block.record(0).expect("a record").key);
            index.extend_from_slice(&offset.to_le_bytes());
        }
        let (last, size) = resident.index.place(blocks - 1);
        index.extend_from_slice(&(last + size).to_le_bytes());

        let properties = table.read_handle(footer.properties).expect("a sound disk");
        let path = paths::table(&shared.dir, 1);
        let file = env.disk.open(&path, OpenMode::ReadWrite).expect("a table");
        let mut end = Vec::new();
        let mut append = |raw: &[u8]| {
            let offset = footer.index.offset + end.len() as u64;
            encode_stored(&mut end, 1, offset, raw, Compression::None, 0).handle
        };
        let (index, properties) = (append(&index), append(&properties));
        Footer::new(footer.filter, index, properties).of_format(format).encode(&mut end);
        file.write_all_at(&end, footer.index.offset).expect("room");
        meta.file_bytes = footer.index.offset + end.len() as u64;
        assert!(meta.file_bytes > file.len().expect("a file") - 1, "it is longer than it was");
        check_table_of_long_keys(&TableShared::on(env.disk.clone()), meta);
    }

    /// How many data blocks a table of records of 16 B + 100 B has, if `random` bytes of each cannot be compressed, and how
    /// many of those blocks lie on two pages.
    fn blocks(compression: Compression, random: usize) -> (usize, usize) {
        let (env, disk, _) = ladoga_env::sim::env(1);
        let mut table = TableBuilder::create(&disk, "/table".into(), 1, compression).expect("an empty disk");
        let mut last = Vec::new();
        for index in 0..20_000 {
            let mut value = [b'-'; 100];
            value[..random].fill_with(|| env.rng.next_u64() as u8);
            last = format!("key:{index:012}").into_bytes();
            let record = Record { key: &last, stamp: Stamp::default(), kind: Kind::Value, value: &value };
            table.add(&record).expect("room");
        }
        table.finish_block().expect("room");
        let end = table.offset();
        let index = std::mem::replace(&mut table.index, IndexBuilder::new()).finish(end);
        let index = Index::parse(&index, IndexFormat::Shared).expect("an index");
        let count = index.block_of(&last) + 1;
        let pages = |(offset, bytes): (u64, u64)| (offset + bytes - 1) / 4096 - offset / 4096 + 1;
        (count, (0..count).filter(|&block| pages(index.place(block)) > 1).count())
    }

    #[test]
    fn a_block_lies_on_one_page_however_well_it_compresses() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            for random in [100, 80, 50, 20, 0] {
                let (blocks, across) = blocks(compression, random);
                assert!(across * 20 <= blocks, "{compression:?}, {random}: {across} of {blocks} blocks");
                assert!((350..1000).contains(&blocks), "{compression:?}, {random}: {blocks} blocks");
            }
        }
    }
}
