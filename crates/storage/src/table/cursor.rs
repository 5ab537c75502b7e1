use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::Version;

use super::{Access, Block, Loaded, Table};
use crate::error::Error;
use crate::record::Record;

/// A block over this length has one record that is long. It can be let go of between two uses of it.
pub(crate) const LONG_BLOCK_BYTES: usize = 8 << 10;

/// Walks one table in key order. Holds one block, or less: see [`TableCursor::let_go`].
pub(crate) struct TableCursor {
    table: Arc<Table>,
    access: Access,
    resident: Option<Loaded>,
    position: Option<Position>,
}

struct Position {
    block_index: usize,
    /// Where the block begins.
    offset: u64,
    /// How many records it has, and which is the current one.
    count: usize,
    index: usize,
    held: Held,
}

/// What is in memory of the block at the current position.
enum Held {
    Block(Block),
    /// The key and the version of the current record.
    Head(Box<[u8]>, Version),
}

impl TableCursor {
    pub(crate) const fn new(table: Arc<Table>, access: Access) -> TableCursor {
        TableCursor { table, access, resident: None, position: None }
    }

    pub(crate) const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The error of a record that is out of order.
    pub(crate) fn misplaced(&self) -> Error {
        self.table.broken(self.position.as_ref().map_or(0, |position| position.offset))
    }

    fn resident(&mut self) -> Result<Loaded, Error> {
        if let Some(resident) = &self.resident {
            return Ok(resident.clone());
        }
        let resident = self.table.resident(self.access)?.expect("cursors may use the disk");
        self.resident = Some(resident.clone());
        Ok(resident)
    }

    /// A block, and its first offset.
    fn read(&mut self, block_index: usize) -> Result<(Block, u64), Error> {
        let (offset, size) = self.resident()?.index.place(block_index);
        let block = self.table.block(offset, size, self.access)?;
        Ok((block.expect("cursors may use the disk"), offset))
    }

    /// The record at the current position, or `None` at the end.
    ///
    /// # Panics
    /// If the block was let go of.
    #[inline]
    pub(crate) fn record(&self) -> Result<Option<Record<'_>>, Error> {
        let Some(position) = &self.position else { return Ok(None) };
        match &position.held {
            Held::Block(block) => {
                block.record(position.index).map(Some).ok_or_else(|| self.table.broken(position.offset))
            }
            Held::Head(..) => panic!("a block that was let go of is loaded before its record is read"),
        }
    }

    /// The key and the version of the record at the current position, or `None` at the end.
    #[inline]
    pub(crate) fn head(&self) -> Result<Option<(&[u8], Version)>, Error> {
        let Some(position) = &self.position else { return Ok(None) };
        let block = match &position.held {
            Held::Block(block) => block,
            Held::Head(key, version) => return Ok(Some((key, *version))),
        };
        let record = block.record(position.index).ok_or_else(|| self.table.broken(position.offset))?;
        Ok(Some((record.key, record.stamp.version)))
    }

    /// How much of the memory of its block it holds.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.position {
            Some(Position { held: Held::Block(block), .. }) => block.memory_bytes(),
            Some(Position { held: Held::Head(key, _), .. }) => key.len(),
            None => 0,
        }
    }

    /// Keeps no more of a long block than the key and the version of the current record. [`TableCursor::load`] reads it again.
    pub(crate) fn let_go(&mut self) -> Result<(), Error> {
        if self.held_bytes() > LONG_BLOCK_BYTES
            && let Some((key, version)) = self.head()?
        {
            let head = Held::Head(key.into(), version);
            self.hold(head);
        }
        Ok(())
    }

    fn hold(&mut self, held: Held) {
        if let Some(position) = &mut self.position {
            position.held = held;
        }
    }

    /// Reads the block again that was let go of.
    #[inline]
    pub(crate) fn load(&mut self) -> Result<(), Error> {
        if let Some(Position { block_index, held: Held::Head(..), .. }) = self.position {
            let (block, _) = self.read(block_index)?;
            self.hold(Held::Block(block));
        }
        Ok(())
    }

    /// Bytes of the current record, kept alive without a copy.
    pub(crate) fn share(&self, part: &[u8]) -> Bytes {
        match &self.position {
            Some(Position { held: Held::Block(block), .. }) => block.share(part),
            _ => Bytes::copy_from_slice(part),
        }
    }

    fn stand_at(&mut self, block_index: usize, (block, offset): (Block, u64), index: usize) {
        let count = block.count();
        self.position = Some(Position { block_index, offset, count, index, held: Held::Block(block) });
    }

    /// To the first key at or behind `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<(), Error> {
        let block_index = self.resident()?.index.block_of(key);
        let (block, offset) = self.read(block_index)?;
        let index = block.lower_bound(key).map_err(|_| self.table.broken(offset))?;
        let count = block.count();
        self.stand_at(block_index, (block, offset), index);
        if index == count { self.next_block() } else { Ok(()) }
    }

    /// To the last key before `key`, or of all.
    pub(crate) fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), Error> {
        let resident = self.resident()?;
        let block_index = key.map_or(resident.index.blocks() - 1, |key| resident.index.block_of(key));
        let (block, offset) = self.read(block_index)?;
        let end = match key {
            Some(key) => block.lower_bound(key).map_err(|_| self.table.broken(offset))?,
            None => block.count(),
        };
        self.stand_at(block_index, (block, offset), end);
        self.previous()
    }

    pub(crate) fn next(&mut self) -> Result<(), Error> {
        let Some(position) = &self.position else { return Ok(()) };
        if position.index + 1 < position.count {
            self.stand_within(position.index + 1)
        } else {
            self.next_block()
        }
    }

    fn next_block(&mut self) -> Result<(), Error> {
        let blocks = self.resident()?.index.blocks();
        let Some(position) = self.position.take() else { return Ok(()) };
        let block_index = position.block_index + 1;
        // Its memory is free for the next one.
        drop(position);
        if block_index < blocks {
            let read = self.read(block_index)?;
            self.stand_at(block_index, read, 0);
        }
        Ok(())
    }

    pub(crate) fn previous(&mut self) -> Result<(), Error> {
        let Some(position) = &self.position else { return Ok(()) };
        if position.index > 0 {
            return self.stand_within(position.index - 1);
        }
        let before = position.block_index.checked_sub(1);
        self.position = None;
        if let Some(block_index) = before {
            let (block, offset) = self.read(block_index)?;
            let index = block.count() - 1;
            self.stand_at(block_index, (block, offset), index);
        }
        Ok(())
    }

    /// To another record of the same block.
    fn stand_within(&mut self, index: usize) -> Result<(), Error> {
        self.load()?;
        if let Some(position) = &mut self.position {
            position.index = index;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ladoga_env::{Disk, OpenMode};
    use ladoga_model::Stamp;

    use super::super::{TableBuilder, TableMeta, TableShared, with_checksum};
    use super::*;
    use crate::options::Compression;
    use crate::paths;
    use crate::record::Kind;

    /// A table of a few blocks.
    fn build(disk: &dyn Disk, path: &std::path::Path) -> TableMeta {
        let mut builder = TableBuilder::create(disk, path.into(), 1, Compression::None).expect("room");
        for key in 0..40_u64 {
            let key = key.to_be_bytes();
            let record = Record { key: &key, stamp: Stamp::default(), kind: Kind::Value, value: &[7; 500] };
            builder.add(&record).expect("room");
        }
        builder.finish().expect("room")
    }

    #[test]
    fn a_block_of_bytes_that_are_none_is_named_by_its_place() {
        let (env, disk, _) = ladoga_env::sim::env(1);
        let shared = TableShared::on(env.disk);
        disk.create_dir_all(&paths::tables_dir(&shared.dir)).expect("room");
        let path = paths::table(&shared.dir, 1);
        let table = Table::new(&shared, build(&disk, &path));
        let index = table.resident(Access::Once).expect("sound").expect("the disk may be used");
        let (offset, size) = index.index.place(2);
        assert!(offset > 4000, "{offset}");

        // The kind of the first record is invalid, but the checksum is right for these bytes.
        let mut stored = vec![0; size as usize];
        let file = disk.open(&path, OpenMode::ReadWrite).expect("a table");
        file.read_exact_at(&mut stored, offset).expect("a block");
        stored[0] = 0x7f;
        stored.truncate(stored.len() - 4);
        file.write_all_at(&with_checksum(1, offset, &stored), offset).expect("a sound disk");

        let key = index.index.blocks() as u64 * 100;
        let walk = |forward: bool| {
            let mut cursor = TableCursor::new(table.clone(), Access::Once);
            let end = key.to_be_bytes();
            let sought = if forward { cursor.seek(b"") } else { cursor.seek_before(Some(&end)) };
            sought?;
            while cursor.record()?.is_some() {
                if forward { cursor.next()? } else { cursor.previous()? }
            }
            Ok::<(), Error>(())
        };
        for forward in [true, false] {
            let error = walk(forward).expect_err("a record that is none");
            assert!(
                matches!(&error, Error::Corruption { path: at, offset: found, .. } if *at == path && *found == offset),
                "{error}"
            );
        }
        let mut cursor = TableCursor::new(table.clone(), Access::Once);
        let error =
            (0..40_u64).find_map(|key| cursor.seek(&key.to_be_bytes()).err()).expect("a record that is none");
        assert!(matches!(&error, Error::Corruption { offset: found, .. } if *found == offset), "{error}");
    }
}
