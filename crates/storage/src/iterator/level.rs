use std::sync::Arc;

use ladoga_model::Version;

use crate::error::Error;
use crate::record::Record;
use crate::table::{Access, Table, TableCursor};

/// Walks the tables of one level above 0, one after the other. It opens a table when it gets there.
pub(crate) struct LevelCursor {
    tables: Vec<Arc<Table>>,
    access: Access,
    index: usize,
    cursor: Option<TableCursor>,
    /// Whether the tables behind are let go of.
    forgets: bool,
}

impl LevelCursor {
    /// `tables` are in key order and share no key.
    pub(crate) const fn new(tables: Vec<Arc<Table>>, access: Access) -> LevelCursor {
        LevelCursor { tables, access, index: 0, cursor: None, forgets: false }
    }

    /// From now on it only goes forward, and lets go of each table that it leaves: if nobody else has that, its file is closed.
    pub(crate) const fn forget_behind(&mut self) {
        self.forgets = true;
    }

    pub(crate) const fn table_cursor(&self) -> Option<&TableCursor> {
        self.cursor.as_ref()
    }

    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        self.cursor.as_ref().map(TableCursor::table)
    }

    pub(crate) fn record(&self) -> Result<Option<Record<'_>>, Error> {
        self.cursor.as_ref().map_or(Ok(None), TableCursor::record)
    }

    #[inline]
    pub(crate) fn head(&self) -> Result<Option<(&[u8], Version)>, Error> {
        self.cursor.as_ref().map_or(Ok(None), TableCursor::head)
    }

    pub(crate) const fn table_cursor_mut(&mut self) -> Option<&mut TableCursor> {
        self.cursor.as_mut()
    }

    /// Opens the table with this index, if there is one.
    fn enter(&mut self, index: usize) -> Option<&mut TableCursor> {
        let table = self.tables.get(index)?;
        if self.index != index || self.cursor.is_none() {
            self.index = index;
            self.cursor = Some(TableCursor::new(table.clone(), self.access));
        }
        self.cursor.as_mut()
    }

    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<(), Error> {
        let index = self.tables.partition_point(|table| *table.meta().largest < *key);
        match self.enter(index) {
            Some(cursor) => cursor.seek(key),
            None => {
                self.cursor = None;
                Ok(())
            }
        }
    }

    pub(crate) fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), Error> {
        let end = match key {
            Some(key) => self.tables.partition_point(|table| *table.meta().smallest < *key),
            None => self.tables.len(),
        };
        match end.checked_sub(1).and_then(|index| self.enter(index)) {
            Some(cursor) => cursor.seek_before(key),
            None => {
                self.cursor = None;
                Ok(())
            }
        }
    }

    pub(crate) fn next(&mut self) -> Result<(), Error> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if cursor.head()?.is_some() {
            return Ok(());
        }
        let next = if self.forgets {
            self.cursor = None;
            self.tables.drain(..=self.index);
            0
        } else {
            self.index + 1
        };
        match self.enter(next) {
            Some(cursor) => cursor.seek(b""),
            None => {
                self.cursor = None;
                Ok(())
            }
        }
    }

    pub(crate) fn previous(&mut self) -> Result<(), Error> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.previous()?;
        if cursor.head()?.is_some() {
            return Ok(());
        }
        match self.index.checked_sub(1).and_then(|index| self.enter(index)) {
            Some(cursor) => cursor.seek_before(None),
            None => {
                self.cursor = None;
                Ok(())
            }
        }
    }
}
