use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ladoga_env::Disk;

use super::{Grandparents, Surroundings, may_drop, without_expired_value};
use crate::error::Error;
use crate::iterator::{Merge, Source};
use crate::options::Compression;
use crate::paths;
use crate::record::Record;
use crate::table::{TableBuilder, TableMeta};

/// How the outputs are written.
pub(crate) struct Outputs<'a> {
    pub disk: &'a dyn Disk,
    pub dir: &'a Path,
    pub compression: Compression,
    /// An output is closed at this size.
    pub table_bytes: u64,
    /// What all outputs may have.
    pub room_bytes: u64,
    pub next_number: &'a dyn Fn() -> u64,
    /// Ends the work early.
    pub stop: &'a AtomicBool,
}

/// Which tombstones and expired values may go, and what newer cells hide.
pub(crate) struct Purge<'a> {
    pub surroundings: Surroundings<'a>,
    /// Deletions before this timestamp are dropped, if they hide nothing that is left.
    pub drop_before: u64,
    /// Values that expired before this time lose their bytes; 0 if none do.
    pub expired_before_ms: u64,
}

impl Purge<'_> {
    /// What is left of a record, if anything is.
    fn left_of<'r>(&self, record: Record<'r>) -> Option<Record<'r>> {
        // Asked first without the surroundings: looking into them is for the few that depend on it.
        let is_over = may_drop(&record, false, self.drop_before)
            && !self.surroundings.may_hold_older(record.key, record.stamp.version);
        let is_dropped = is_over || self.surroundings.hides(&record);
        (!is_dropped).then(|| without_expired_value(record, self.expired_before_ms))
    }

    /// Whether a record loses its value because that has expired.
    fn empties(&self, record: &Record<'_>) -> bool {
        without_expired_value(*record, self.expired_before_ms).kind != record.kind
    }
}

/// A merge of sources into new tables, each key in its newest version, as far as it has come. One thread may begin it, and another
/// go on with it.
///
/// Protocol: `new run+ (into_tables | discard)`. On an error the tables that were begun are removed, and that is the end.
pub(crate) struct TableMerge {
    merge: Merge,
    grandparents: Grandparents,
    last_key: Vec<u8>,
    open: Option<TableBuilder>,
    begun: Vec<u64>,
    finished: Vec<TableMeta>,
    expired_values: u64,
    dropped_up_to: u64,
}

impl TableMerge {
    pub(crate) fn new(sources: Vec<Source>, grandparents: Grandparents) -> Result<TableMerge, Error> {
        let merge = Merge::forward(sources, b"", usize::MAX)?;
        Ok(TableMerge {
            merge,
            grandparents,
            last_key: Vec::new(),
            open: None,
            begun: Vec::new(),
            finished: Vec::new(),
            expired_values: 0,
            dropped_up_to: 0,
        })
    }

    /// How many values have lost their bytes so far, because they had expired.
    pub(crate) const fn expired_values(&self) -> u64 {
        self.expired_values
    }

    /// The newest timestamp of the deletions that were dropped so far; 0 if none was.
    pub(crate) const fn dropped_up_to(&self) -> u64 {
        self.dropped_up_to
    }

    /// Goes on until the end, or until `is_to_pause`. With no `purge`, nothing is dropped. Answers whether it is at the end.
    pub(crate) fn run(
        &mut self,
        outputs: &Outputs<'_>,
        purge: Option<&Purge<'_>>,
        is_to_pause: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        self.write(outputs, purge, is_to_pause).inspect_err(|_| self.discard(outputs.disk, outputs.dir))
    }

    /// The tables, once it is at the end.
    pub(crate) fn into_tables(self) -> Vec<TableMeta> {
        self.finished
    }

    /// Removes the tables that were begun. An orphan is found at the next open at the latest.
    pub(crate) fn discard(&self, disk: &dyn Disk, dir: &Path) {
        for &number in &self.begun {
            _ = disk.remove(&paths::table(dir, number));
        }
    }

    fn write(
        &mut self,
        outputs: &Outputs<'_>,
        purge: Option<&Purge<'_>>,
        is_to_pause: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        while let Some((record, source)) = self.merge.current()? {
            if outputs.stop.load(Ordering::Relaxed) {
                return Err(Error::Closed);
            }
            if is_to_pause() {
                return Ok(false);
            }
            // Blocks whose checksums fit may be forged. A table must not get keys that it would hide, or that others have.
            if let Some(cursor) = source.table_cursor()
                && !(self.last_key.as_slice() < record.key && cursor.table().meta().covers(record.key))
            {
                return Err(cursor.misplaced());
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(record.key);
            let left = purge.map_or(Some(record), |purge| purge.left_of(record));
            if left.is_none() && purge.is_some_and(|purge| may_drop(&record, false, purge.drop_before)) {
                self.dropped_up_to = self.dropped_up_to.max(record.stamp.version.timestamp);
            }
            self.expired_values += u64::from(purge.is_some_and(|purge| purge.empties(&record)));
            if let Some(left) = left {
                if self.grandparents.pass(left.key) {
                    finish(&mut self.open, &mut self.finished, outputs.room_bytes)?;
                }
                let builder = match &mut self.open {
                    Some(builder) => builder,
                    None => {
                        self.grandparents.begin_output();
                        self.open.insert(create(outputs, &mut self.begun)?)
                    }
                };
                builder.add(&left)?;
                if builder.bytes() >= outputs.table_bytes {
                    finish(&mut self.open, &mut self.finished, outputs.room_bytes)?;
                }
            }
            self.merge.advance()?;
        }
        finish(&mut self.open, &mut self.finished, outputs.room_bytes)?;
        Ok(true)
    }
}

fn create(outputs: &Outputs<'_>, begun: &mut Vec<u64>) -> Result<TableBuilder, Error> {
    let Outputs { disk, dir, compression, next_number, .. } = outputs;
    let number = next_number();
    begun.push(number);
    TableBuilder::create(*disk, paths::table(dir, number), number, *compression)
}

fn finish(
    open: &mut Option<TableBuilder>,
    finished: &mut Vec<TableMeta>,
    room_bytes: u64,
) -> Result<(), Error> {
    if let Some(builder) = open.take() {
        finished.push(builder.finish()?);
    }
    let bytes: u64 = finished.iter().map(|meta| meta.file_bytes).sum();
    if bytes > room_bytes {
        return Err(Error::DiskFull { free_bytes: room_bytes, needed_bytes: bytes });
    }
    Ok(())
}
