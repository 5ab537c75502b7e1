use std::sync::Arc;

use super::{Access, Block, Loaded, Table};
use crate::error::Error;
use crate::record::Record;

/// Walks one table in key order. Holds one block.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    access: Access,
    resident: Option<Loaded>,
    position: Option<Position>,
}

struct Position {
    block_index: usize,
    block: Block,
    index: usize,
}

impl TableCursor {
    pub(crate) const fn new(table: Arc<Table>, access: Access) -> TableCursor {
        TableCursor { table, access, resident: None, position: None }
    }

    pub(crate) const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    fn resident(&mut self) -> Result<Loaded, Error> {
        if let Some(resident) = &self.resident {
            return Ok(resident.clone());
        }
        let resident = self.table.resident(self.access)?.expect("cursors may use the disk");
        self.resident = Some(resident.clone());
        Ok(resident)
    }

    fn load(&mut self, block_index: usize) -> Result<Block, Error> {
        let (offset, size) = self.resident()?.index.place(block_index);
        Ok(self.table.block(offset, size, self.access)?.expect("cursors may use the disk"))
    }

    /// The record at the current position, or `None` at the end.
    pub(crate) fn record(&self) -> Result<Option<Record<'_>>, Error> {
        let Some(position) = &self.position else { return Ok(None) };
        position.block.record(position.index).map(Some).ok_or_else(|| self.table.broken(0))
    }

    /// To the first key at or behind `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<(), Error> {
        let block_index = self.resident()?.index.block_of(key);
        let block = self.load(block_index)?;
        let index = block.lower_bound(key).map_err(|_| self.table.broken(0))?;
        let count = block.count();
        self.position = Some(Position { block_index, block, index });
        if index == count { self.next_block() } else { Ok(()) }
    }

    /// To the last key before `key`, or of all.
    pub(crate) fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), Error> {
        let resident = self.resident()?;
        let block_index = key.map_or(resident.index.blocks() - 1, |key| resident.index.block_of(key));
        let block = self.load(block_index)?;
        let end = match key {
            Some(key) => block.lower_bound(key).map_err(|_| self.table.broken(0))?,
            None => block.count(),
        };
        self.position = Some(Position { block_index, block, index: end });
        self.previous()
    }

    pub(crate) fn next(&mut self) -> Result<(), Error> {
        let Some(position) = &mut self.position else { return Ok(()) };
        position.index += 1;
        if position.index < position.block.count() { Ok(()) } else { self.next_block() }
    }

    fn next_block(&mut self) -> Result<(), Error> {
        let blocks = self.resident()?.index.blocks();
        let Some(position) = self.position.take() else { return Ok(()) };
        let block_index = position.block_index + 1;
        if block_index < blocks {
            let block = self.load(block_index)?;
            self.position = Some(Position { block_index, block, index: 0 });
        }
        Ok(())
    }

    pub(crate) fn previous(&mut self) -> Result<(), Error> {
        let Some(position) = &mut self.position else { return Ok(()) };
        if position.index > 0 {
            position.index -= 1;
            return Ok(());
        }
        let before = position.block_index.checked_sub(1);
        self.position = None;
        if let Some(block_index) = before {
            let block = self.load(block_index)?;
            let index = block.count() - 1;
            self.position = Some(Position { block_index, block, index });
        }
        Ok(())
    }
}
