use std::collections::BTreeMap;
use std::sync::Arc;

use ladoga_model::Version;

use crate::options::{LEVEL_RATIO, LEVELS};

/// What the choice needs to know of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableView {
    pub number: u64,
    pub smallest: Arc<[u8]>,
    pub largest: Arc<[u8]>,
    pub file_bytes: u64,
    /// Its file and the blob files that it names.
    pub disk_bytes: u64,
    pub records: u64,
    pub tombstones: u64,
    pub oldest: Version,
    pub newest: Version,
    /// Everything that it deletes was deleted so long ago that it may be dropped if nothing lies below it. Not so if that was tried, and
    /// what is in memory still keeps it.
    pub droppable: bool,
    /// Bytes of values that expired so long ago that they may go; 0 if they are less than half of its values.
    pub expired_bytes: u64,
    /// A compaction found corrupt bytes in it, so it stays where it is.
    pub damaged: bool,
}

/// The sizes that decide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PickConfig {
    pub level_1_bytes: u64,
    /// What the disk has room for beside the inputs: as much as those have, in the worst case.
    pub room_bytes: u64,
    /// What a table may overlap of the level below it.
    pub overlap_bytes_max: u64,
}

/// Tables in level 0 that start a compaction.
const LEVEL_0_TABLES: u64 = 4;
/// Tables that one compaction out of level 0 takes at most from there; keeps it short, and the disk that it needs.
const LEVEL_0_INPUT_TABLES: usize = 8;

const LAST_LEVEL: usize = LEVELS - 1;

/// Which tables to merge into which level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub level: usize,
    pub output_level: usize,
    /// Tables of `level` and of `output_level`.
    pub inputs: Vec<u64>,
    /// What their files have, and the outputs at most.
    pub input_bytes: u64,
    /// The tables share no key with each other or anything in the output level: they need not be rewritten.
    pub only_move: bool,
}

/// Chooses the most urgent compaction, or none. A table that is mostly dead is written anew first, unless level 0 is
/// behind: that takes little and gives back much. Level 0 is measured in tables, because each costs every read; the
/// others in bytes, blob files and what tombstones are likely to hide included, against sizes that grow tenfold.
pub(crate) fn pick(levels: &[Vec<TableView>; LEVELS], config: PickConfig) -> Option<Choice> {
    // Those that are damaged stay there, and nothing brings them down.
    if levels[0].iter().filter(|table| !table.damaged).count() <= LEVEL_0_INPUT_TABLES
        && let Some(choice) = pick_to_rewrite(levels, config)
    {
        return Some(choice);
    }
    let mean = mean_record_bytes(levels);
    let mut scored: Vec<(f64, usize)> =
        (0..LAST_LEVEL).map(|level| (score(level, &levels[level], mean, config), level)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut urgent = scored.into_iter().take_while(|(score, _)| *score >= 1.0);
    urgent.find_map(|(_, level)| choose_in(level, levels, mean, config))
}

/// The table that loses the most when it is written anew by itself: without its expired values or, in the last level, without its
/// deletions. Those have nowhere to go down to, and for old keys no compaction may ever come from above.
fn pick_to_rewrite(levels: &[Vec<TableView>; LEVELS], config: PickConfig) -> Option<Choice> {
    let lost_bytes = |level, table: &TableView| match table.expired_bytes {
        0 if level == LAST_LEVEL && is_dead(table) && !has_older_above(levels, table) => table.file_bytes,
        expired_bytes => expired_bytes,
    };
    let tables = levels.iter().enumerate().flat_map(|(level, tables)| tables.iter().map(move |t| (level, t)));
    let fitting = tables.filter(|(_, table)| !table.damaged && table.file_bytes <= config.room_bytes);
    let losing = fitting.map(|(level, table)| (lost_bytes(level, table), level, table));
    let losing = losing.filter(|(lost_bytes, ..)| *lost_bytes > 0);
    let (_, level, table) = losing.max_by_key(|(lost_bytes, _, table)| (*lost_bytes, table.number))?;
    let (inputs, input_bytes) = (vec![table.number], table.file_bytes);
    Some(Choice { level, output_level: level, inputs, input_bytes, only_move: false })
}

/// Whether it is mostly tombstones that may go: it slows ranges down and wastes space.
const fn is_dead(table: &TableView) -> bool {
    table.droppable && table.tombstones * 2 > table.records
}

/// Whether deletions of a table of the last level may hide something in the tables above it.
fn has_older_above(levels: &[Vec<TableView>; LEVELS], table: &TableView) -> bool {
    let is_older = |other: &TableView| other.oldest < table.newest;
    let overlaps = |other: &TableView| other.smallest <= table.largest && table.smallest <= other.largest;
    levels[0].iter().any(|other| overlaps(other) && is_older(other))
        || levels[1..LAST_LEVEL].iter().any(|tables| overlapping(tables, table).any(is_older))
}

/// Bytes on disk of an average record: what a tombstone is taken to hide.
pub(crate) fn mean_record_bytes(levels: &[Vec<TableView>; LEVELS]) -> u64 {
    let (mut bytes, mut records) = (0, 0);
    for table in levels.iter().flatten() {
        bytes += table.disk_bytes;
        records += table.records - table.tombstones;
    }
    bytes.checked_div(records).unwrap_or(0)
}

fn weight(table: &TableView, mean: u64) -> u64 {
    table.disk_bytes.saturating_add(table.tombstones.saturating_mul(mean))
}

/// The size of a level, as a share of what it may have.
fn fullness(level: usize, tables: &[TableView], mean: u64, config: PickConfig) -> f64 {
    let target = config.level_1_bytes.saturating_mul(LEVEL_RATIO.pow(level.saturating_sub(1) as u32));
    let sound = tables.iter().filter(|table| !table.damaged);
    let bytes = sound.map(|table| weight(table, mean)).fold(0, u64::saturating_add);
    bytes as f64 / target as f64
}

fn score(level: usize, tables: &[TableView], mean: u64, config: PickConfig) -> f64 {
    let sound = || tables.iter().filter(|table| !table.damaged);
    let by_bytes = fullness(level, tables, mean, config);
    let by_dead = if sound().any(is_dead) { 1.0 } else { 0.0 };
    let by_count = if level == 0 { sound().count() as f64 / LEVEL_0_TABLES as f64 } else { 0.0 };
    by_bytes.max(by_dead).max(by_count)
}

fn choose_in(
    level: usize,
    levels: &[Vec<TableView>; LEVELS],
    mean: u64,
    config: PickConfig,
) -> Option<Choice> {
    let fits = |choice: &Choice| choice.only_move || choice.input_bytes <= config.room_bytes;
    if level == 0 {
        let sound = levels[0].iter().filter(|table| !table.damaged);
        // The oldest: versions decide between tables, so any subset is right.
        let mut oldest: Vec<&TableView> = sound.collect();
        oldest.sort_by_key(|table| table.number);
        oldest.truncate(LEVEL_0_INPUT_TABLES);
        loop {
            let choice = choice(0, &oldest, levels, config)?;
            if fits(&choice) {
                return Some(choice);
            }
            oldest.pop();
        }
    }
    let is_full = fullness(level, &levels[level], mean, config) >= 1.0;
    let mut candidates: Vec<(f64, &TableView)> = levels[level]
        .iter()
        .filter(|table| !table.damaged && (is_full || is_dead(table)))
        .map(|table| {
            let below: u64 = overlapping(&levels[level + 1], table).map(|other| other.disk_bytes).sum();
            (below as f64 / weight(table, mean).max(1) as f64, table)
        })
        .collect();
    // One that is dead, or else those that live go down, and it stays; then the one that moves the most for the least rewriting.
    candidates.sort_by(|(a_ratio, a), (b_ratio, b)| {
        is_dead(b).cmp(&is_dead(a)).then(a_ratio.total_cmp(b_ratio)).then(a.number.cmp(&b.number))
    });
    candidates.into_iter().find_map(|(_, table)| choice(level, &[table], levels, config).filter(fits))
}

fn overlapping<'a>(tables: &'a [TableView], with: &TableView) -> impl Iterator<Item = &'a TableView> {
    let start = tables.partition_point(|table| table.largest < with.smallest);
    let largest = with.largest.clone();
    tables[start..].iter().take_while(move |table| table.smallest <= largest)
}

/// `None` if there is nothing to take, or a damaged table is in the way.
fn choice(
    level: usize,
    upper: &[&TableView],
    levels: &[Vec<TableView>; LEVELS],
    config: PickConfig,
) -> Option<Choice> {
    let smallest = upper.iter().map(|table| &table.smallest).min()?.clone();
    let largest = upper.iter().map(|table| &table.largest).max()?.clone();
    let span = TableView { smallest, largest, ..upper[0].clone() };
    let lower: Vec<&TableView> = overlapping(&levels[level + 1], &span).collect();
    if lower.iter().any(|table| table.damaged) {
        return None;
    }
    let mut sorted = upper.to_vec();
    sorted.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let apart = sorted.windows(2).all(|pair| pair[0].largest < pair[1].smallest);
    let overlapped_bytes = |table: &TableView| -> u64 {
        let grandparents = levels.get(level + 2).into_iter().flat_map(|tables| overlapping(tables, table));
        let bytes: Vec<u64> = grandparents.map(|other| other.file_bytes).collect();
        // No output is closed behind the last one.
        bytes.split_last().map_or(0, |(_, others)| others.iter().sum())
    };
    // A table with tombstones is rewritten: that is what lets them go. So is one above much of the next level: it comes to several.
    let is_whole =
        |table: &&TableView| table.tombstones == 0 && overlapped_bytes(table) <= config.overlap_bytes_max;
    let only_move = lower.is_empty() && apart && upper.iter().all(is_whole);
    let inputs = || upper.iter().chain(&lower);
    Some(Choice {
        level,
        output_level: level + 1,
        input_bytes: inputs().map(|table| table.file_bytes).sum(),
        inputs: inputs().map(|table| table.number).collect(),
        only_move,
    })
}

/// For a disk without room for a compaction: the one table that is most worth rewriting by itself, without the records that
/// tombstones in newer tables hide; and the version up to which those tombstones reach. That needs room for one table at most,
/// and gives the space of deleted values back. `trimmed` says up to which version each table has been trimmed already.
pub(crate) fn pick_to_trim(
    levels: &[Vec<TableView>; LEVELS],
    trimmed: &BTreeMap<u64, Version>,
    room_bytes: u64,
) -> Option<(Choice, Version)> {
    let with_tombstones: Vec<_> = levels.iter().flatten().filter(|table| table.tombstones > 0).collect();
    let up_to = |table: &TableView| {
        let hides = |other: &&&TableView| {
            let overlaps = other.smallest <= table.largest && table.smallest <= other.largest;
            other.number != table.number && overlaps && other.newest > table.oldest
        };
        let newest = with_tombstones.iter().filter(hides).map(|other| other.newest).max();
        newest.filter(|newest| trimmed.get(&table.number).is_none_or(|done| done < newest))
    };
    let tables = levels.iter().enumerate().flat_map(|(level, tables)| tables.iter().map(move |t| (level, t)));
    let fitting = tables.filter(|(_, table)| !table.damaged && table.file_bytes <= room_bytes);
    let worth = |(level, table): (usize, &TableView)| {
        let up_to = up_to(table)?;
        Some((table.disk_bytes, table.number, table.file_bytes, level, up_to))
    };
    let (_, number, input_bytes, level, up_to) = fitting.filter_map(worth).max()?;
    let choice = Choice { level, output_level: level, inputs: vec![number], input_bytes, only_move: false };
    Some((choice, up_to))
}

#[cfg(test)]
#[path = "pick_tests.rs"]
mod tests;
