//! Which tables there are, by level; how that changes; and how it is kept on disk.

mod edit;
mod fences;
mod manifest;

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use ladoga_model::Version;

use crate::iterator::{LevelCursor, Source};
use crate::options::LEVELS;
use crate::stats::LevelStatistics;
use crate::table::{Access, Table, TableCursor, TableMeta};
pub(crate) use edit::Edit;
use fences::Fences;
pub(crate) use manifest::{Manifest, Recovered, read_manifest, replay as replay_manifest};

/// The tables of a store at one moment. Level 0 holds flushed memtables, newest first, whose keys overlap; in every
/// other level the tables are in key order and share no key.
#[derive(Default)]
pub(crate) struct Levels {
    levels: [Vec<Arc<Table>>; LEVELS],
    /// Of the levels above 0.
    fences: [Fences; LEVELS],
    /// The newest version in each level, so that a read that has a newer one need not look.
    newest: [Version; LEVELS],
    /// The newest version in any.
    newest_of_all: Version,
}

/// How far a search has come: tables before this have been asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// Tables of level 0.
    of_level_0: usize,
    /// The last of the other levels.
    below: usize,
}

impl Levels {
    /// Puts tables into levels; `None` if tables of one level above 0 share a key, so that reads would miss cells.
    pub(crate) fn checked(mut levels: [Vec<Arc<Table>>; LEVELS]) -> Option<Levels> {
        levels[0].sort_by_key(|table| std::cmp::Reverse(table.meta().number));
        for level in &mut levels[1..] {
            level.sort_by(|a, b| a.meta().smallest.cmp(&b.meta().smallest));
            let apart = level.windows(2).all(|pair| pair[0].meta().largest < pair[1].meta().smallest);
            if !apart {
                return None;
            }
        }
        let fences = std::array::from_fn(|level| match level {
            0 => Fences::default(),
            _ => Fences::of(&levels[level]),
        });
        let newest = std::array::from_fn(|level| {
            levels[level].iter().map(|table| table.meta().newest).max().unwrap_or(Version::ZERO)
        });
        let newest_of_all = newest.iter().copied().max().unwrap_or(Version::ZERO);
        Some(Levels { levels, fences, newest, newest_of_all })
    }

    /// Adds the tables that are wanted as sources of a merge, which reads each block once: those of level 0 one by one, as their
    /// keys overlap, and the other levels as a whole.
    pub(crate) fn add_sources(&self, sources: &mut Vec<Source>, is_wanted: impl Fn(&TableMeta) -> bool) {
        let [of_level_0, below @ ..] = &self.levels;
        let wanted = |table: &&Arc<Table>| is_wanted(table.meta());
        let tables = of_level_0.iter().filter(wanted).cloned();
        sources.extend(tables.map(|table| Source::Table(TableCursor::new(table, Access::Once))));
        for level in below {
            let tables: Vec<_> = level.iter().filter(wanted).cloned().collect();
            if !tables.is_empty() {
                sources.push(Source::Level(LevelCursor::new(tables, Access::Once)));
            }
        }
    }

    pub(crate) fn level(&self, level: usize) -> &[Arc<Table>] {
        &self.levels[level]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    #[inline]
    pub(crate) const fn newest_of_all(&self) -> Version {
        self.newest_of_all
    }

    /// The one table of a level above 0 that can hold `key`.
    #[inline]
    pub(crate) fn table_of(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        self.fences[level].find(&self.levels[level], key)
    }

    /// The tables of these levels in which `key` is to be looked for: all of level 0, and of each other level the one that can hold it.
    pub(crate) fn tables_for<'a>(
        &'a self,
        key: &'a [u8],
        levels: Range<usize>,
    ) -> impl Iterator<Item = &'a Arc<Table>> {
        levels.flat_map(move |level| match level {
            0 => &self.levels[0],
            _ => self.table_of(level, key).map_or(&[][..], slice::from_ref),
        })
    }

    /// The next table from `place` on that can have a newer cell of `key` than `best`: level 0 from the newest on, then
    /// the levels below.
    #[inline]
    pub(crate) fn next_for(&self, key: &[u8], best: Version, place: &mut Place) -> Option<&Arc<Table>> {
        while let Some(table) = self.levels[0].get(place.of_level_0) {
            place.of_level_0 += 1;
            if best < table.meta().newest && table.meta().covers(key) {
                return Some(table);
            }
        }
        while place.below + 1 < LEVELS {
            place.below += 1;
            if best >= self.newest[place.below] {
                continue;
            }
            let table = self.table_of(place.below, key);
            if let Some(table) = table.filter(|table| best < table.meta().newest) {
                return Some(table);
            }
        }
        None
    }

    /// These levels, changed.
    pub(crate) fn with(&self, added: &[(usize, Arc<Table>)], removed: &[u64]) -> Levels {
        let mut levels = self.levels.clone();
        for level in &mut levels {
            level.retain(|table| !removed.contains(&table.meta().number));
        }
        for (level, table) in added {
            levels[*level].push(table.clone());
        }
        Levels::checked(levels).expect("a compaction takes everything that overlaps")
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.iter().map(|(_, table)| table.meta().disk_bytes()).fold(0, u64::saturating_add)
    }

    pub(crate) fn statistics(&self) -> Vec<LevelStatistics> {
        let sum = |tables: &Vec<Arc<Table>>| LevelStatistics {
            tables: tables.len() as u64,
            bytes: tables.iter().map(|table| table.meta().file_bytes).sum(),
            records: tables.iter().map(|table| table.meta().records).sum(),
        };
        self.levels.iter().map(sum).collect()
    }
}
