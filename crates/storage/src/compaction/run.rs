use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ladoga_env::Disk;
use ladoga_model::Version;

use super::{Surroundings, may_drop};
use crate::error::Error;
use crate::iterator::{Merge, Source};
use crate::options::Compression;
use crate::paths;
use crate::table::{TableBuilder, TableMeta};

/// How the outputs are written.
pub(crate) struct Outputs<'a> {
    pub disk: &'a dyn Disk,
    pub dir: &'a Path,
    pub compression: Compression,
    /// An output is closed at this size.
    pub table_bytes: u64,
    pub next_number: &'a dyn Fn() -> u64,
    /// Ends the work early.
    pub stop: &'a AtomicBool,
}

/// Which tombstones and expired values may go.
pub(crate) struct Purge<'a> {
    pub surroundings: Surroundings<'a>,
    pub settled_before: Version,
    pub now_ms: u64,
}

/// Merges `sources` into new tables, each key in its newest version. With no `purge`, nothing is dropped.
///
/// On an error the tables that were begun are removed.
pub(crate) fn merge_tables(
    sources: Vec<Source>,
    outputs: &Outputs<'_>,
    purge: Option<&Purge<'_>>,
) -> Result<Vec<TableMeta>, Error> {
    let mut writer = OutputWriter { outputs, open: None, begun: Vec::new(), finished: Vec::new() };
    match writer.write_all(sources, purge) {
        Ok(()) => Ok(writer.finished),
        Err(error) => {
            for number in writer.begun {
                // An orphan is found at the next open at the latest.
                _ = outputs.disk.remove(&paths::table(outputs.dir, number));
            }
            Err(error)
        }
    }
}

struct OutputWriter<'a> {
    outputs: &'a Outputs<'a>,
    open: Option<TableBuilder>,
    begun: Vec<u64>,
    finished: Vec<TableMeta>,
}

impl OutputWriter<'_> {
    fn write_all(&mut self, sources: Vec<Source>, purge: Option<&Purge<'_>>) -> Result<(), Error> {
        let mut merge = Merge::forward(sources, b"")?;
        while let Some((record, _)) = merge.current()? {
            if self.outputs.stop.load(Ordering::Relaxed) {
                return Err(Error::Closed);
            }
            let dropped = purge.is_some_and(|purge| {
                // Asked first without the surroundings: looking into them is for the few that depend on it.
                may_drop(&record, false, purge.settled_before, purge.now_ms)
                    && !purge.surroundings.may_hold_older(record.key, record.stamp.version)
            });
            if !dropped {
                let builder = match &mut self.open {
                    Some(builder) => builder,
                    None => {
                        let builder = self.create()?;
                        self.open.insert(builder)
                    }
                };
                builder.add(&record)?;
                if builder.bytes() >= self.outputs.table_bytes {
                    self.finish()?;
                }
            }
            merge.advance()?;
        }
        self.finish()
    }

    fn create(&mut self) -> Result<TableBuilder, Error> {
        let Outputs { disk, dir, compression, next_number, .. } = self.outputs;
        let number = next_number();
        self.begun.push(number);
        TableBuilder::create(*disk, paths::table(dir, number), number, *compression)
    }

    fn finish(&mut self) -> Result<(), Error> {
        if let Some(builder) = self.open.take() {
            self.finished.push(builder.finish()?);
        }
        Ok(())
    }
}
