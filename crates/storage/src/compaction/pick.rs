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
    /// Everything that it deletes was deleted so long ago that it may be dropped if nothing lies below it.
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
}

/// Tables in level 0 that start a compaction.
const LEVEL_0_TABLES: u64 = 4;
/// Tables that one compaction out of level 0 takes at most from there; keeps it short, and the disk that it needs.
const LEVEL_0_INPUT_TABLES: usize = 8;

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

/// Chooses the most urgent compaction, or none. A table that is mostly expired values is written anew first, unless level 0 is
/// behind: that takes little and gives back much. Level 0 is measured in tables, because each costs every read; the
/// others in bytes, blob files and what tombstones are likely to hide included, against sizes that grow tenfold.
pub(crate) fn pick(levels: &[Vec<TableView>; LEVELS], config: PickConfig) -> Option<Choice> {
    // Those that are damaged stay there, and nothing brings them down.
    if levels[0].iter().filter(|table| !table.damaged).count() <= LEVEL_0_INPUT_TABLES
        && let Some(choice) = pick_expired(levels, config)
    {
        return Some(choice);
    }
    let mean = mean_record_bytes(levels);
    let mut scored: Vec<(f64, usize)> =
        (0..LEVELS - 1).map(|level| (score(level, &levels[level], mean, config), level)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut urgent = scored.into_iter().take_while(|(score, _)| *score >= 1.0);
    urgent.find_map(|(_, level)| choose_in(level, levels, mean, config.room_bytes))
}

/// The table that loses the most when it is written anew by itself without its expired values.
fn pick_expired(levels: &[Vec<TableView>; LEVELS], config: PickConfig) -> Option<Choice> {
    let tables = levels.iter().enumerate().flat_map(|(level, tables)| tables.iter().map(move |t| (level, t)));
    let fits = |table: &TableView| !table.damaged && table.file_bytes <= config.room_bytes;
    let expired = tables.filter(|(_, table)| table.expired_bytes > 0 && fits(table));
    let (level, table) = expired.max_by_key(|(_, table)| (table.expired_bytes, table.number))?;
    let (inputs, input_bytes) = (vec![table.number], table.file_bytes);
    Some(Choice { level, output_level: level, inputs, input_bytes, only_move: false })
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

fn score(level: usize, tables: &[TableView], mean: u64, config: PickConfig) -> f64 {
    let target = config.level_1_bytes.saturating_mul(LEVEL_RATIO.pow(level.saturating_sub(1) as u32));
    let sound = || tables.iter().filter(|table| !table.damaged);
    let bytes = sound().map(|table| weight(table, mean)).fold(0, u64::saturating_add);
    let by_bytes = bytes as f64 / target as f64;
    // A table that is mostly tombstones slows ranges down and wastes space.
    let mostly_dead = sound().any(|table| table.droppable && table.tombstones * 2 > table.records);
    let by_dead = if mostly_dead { 1.0 } else { 0.0 };
    let by_count = if level == 0 { sound().count() as f64 / LEVEL_0_TABLES as f64 } else { 0.0 };
    by_bytes.max(by_dead).max(by_count)
}

fn choose_in(level: usize, levels: &[Vec<TableView>; LEVELS], mean: u64, room_bytes: u64) -> Option<Choice> {
    let fits = |choice: &Choice| choice.only_move || choice.input_bytes <= room_bytes;
    if level == 0 {
        let sound = levels[0].iter().filter(|table| !table.damaged);
        // The oldest: versions decide between tables, so any subset is right.
        let mut oldest: Vec<&TableView> = sound.collect();
        oldest.sort_by_key(|table| table.number);
        oldest.truncate(LEVEL_0_INPUT_TABLES);
        loop {
            let choice = choice(0, &oldest, &levels[1])?;
            if fits(&choice) {
                return Some(choice);
            }
            oldest.pop();
        }
    }
    let mut candidates: Vec<(f64, &TableView)> = levels[level]
        .iter()
        .filter(|table| !table.damaged)
        .map(|table| {
            let below: u64 = overlapping(&levels[level + 1], table).map(|other| other.disk_bytes).sum();
            (below as f64 / weight(table, mean).max(1) as f64, table)
        })
        .collect();
    // The one that moves the most for the least rewriting.
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
    candidates.into_iter().find_map(|(_, table)| choice(level, &[table], &levels[level + 1]).filter(fits))
}

fn overlapping<'a>(tables: &'a [TableView], with: &TableView) -> impl Iterator<Item = &'a TableView> {
    let start = tables.partition_point(|table| table.largest < with.smallest);
    let largest = with.largest.clone();
    tables[start..].iter().take_while(move |table| table.smallest <= largest)
}

/// `None` if there is nothing to take, or a damaged table is in the way.
fn choice(level: usize, upper: &[&TableView], below: &[TableView]) -> Option<Choice> {
    let smallest = upper.iter().map(|table| &table.smallest).min()?.clone();
    let largest = upper.iter().map(|table| &table.largest).max()?.clone();
    let span = TableView { smallest, largest, ..upper[0].clone() };
    let lower: Vec<&TableView> = overlapping(below, &span).collect();
    if lower.iter().any(|table| table.damaged) {
        return None;
    }
    let mut sorted = upper.to_vec();
    sorted.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let apart = sorted.windows(2).all(|pair| pair[0].largest < pair[1].smallest);
    // A table with tombstones is rewritten: that is what lets them go.
    let only_move = lower.is_empty() && apart && upper.iter().all(|table| table.tombstones == 0);
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
mod tests {
    use super::*;

    const CONFIG: PickConfig = PickConfig { level_1_bytes: 1000, room_bytes: u64::MAX };

    fn table(number: u64, smallest: &str, largest: &str, disk_bytes: u64) -> TableView {
        TableView {
            number,
            smallest: smallest.as_bytes().into(),
            largest: largest.as_bytes().into(),
            file_bytes: disk_bytes,
            disk_bytes,
            records: 10,
            tombstones: 0,
            oldest: Version { timestamp: number, node: 0 },
            newest: Version { timestamp: number, node: 0 },
            droppable: true,
            expired_bytes: 0,
            damaged: false,
        }
    }

    fn levels(of: &[(usize, TableView)]) -> [Vec<TableView>; LEVELS] {
        let mut levels: [Vec<TableView>; LEVELS] = std::array::from_fn(|_| Vec::new());
        of.iter().for_each(|(level, table)| levels[*level].push(table.clone()));
        levels
    }

    #[test]
    fn nothing_to_do_is_no_choice() {
        assert_eq!(pick(&levels(&[]), CONFIG), None);
        assert_eq!(pick(&levels(&[(0, table(1, "a", "b", 10)), (1, table(2, "a", "z", 900))]), CONFIG), None);
    }

    #[test]
    fn level_0_goes_down_with_everything_below_it_that_it_overlaps() {
        let mut given: Vec<_> = (5..9).map(|number| (0, table(number, "d", "k", 10))).collect();
        given.extend([
            (1, table(1, "a", "c", 10)),
            (1, table(2, "c1", "e", 10)),
            (1, table(3, "k", "z", 10)),
        ]);
        let choice = pick(&levels(&given), CONFIG).expect("four tables");
        assert_eq!(choice.inputs, [5, 6, 7, 8, 2, 3]);
        assert_eq!((choice.level, choice.output_level, choice.only_move), (0, 1, false));
    }

    #[test]
    fn tables_that_overlap_nothing_are_moved_unless_they_have_tombstones() {
        let mut given: Vec<_> =
            (1..5).map(|n| (0, table(n, &format!("{n}a"), &format!("{n}z"), 10))).collect();
        assert!(pick(&levels(&given), CONFIG).expect("four tables").only_move);
        given[2].1.tombstones = 1;
        assert!(!pick(&levels(&given), CONFIG).expect("four tables").only_move);
    }

    #[test]
    fn an_oversized_level_gives_up_the_table_with_the_least_below_it() {
        let given = levels(&[
            (1, table(1, "a", "c", 600)),
            (1, table(2, "d", "f", 600)),
            (2, table(3, "a", "c", 500)),
            (2, table(4, "e", "e", 50)),
        ]);
        assert_eq!(pick(&given, CONFIG).expect("over its size").inputs, [2, 4]);
    }

    #[test]
    fn tombstones_weigh_what_they_are_likely_to_hide() {
        let mut dead = table(1, "a", "c", 100);
        dead.tombstones = 10;
        let given = |dead: &TableView| levels(&[(1, dead.clone()), (2, table(2, "a", "z", 9000))]);
        assert_eq!(pick(&given(&dead), CONFIG).expect("over its size").inputs, [1, 2]);
    }

    #[test]
    fn a_table_of_tombstones_goes_down_once_they_may_go() {
        let mut dead = table(1, "a", "c", 1);
        dead.tombstones = 6;
        let given = |dead: &TableView| levels(&[(1, dead.clone()), (2, table(2, "a", "z", 10))]);
        assert_eq!(pick(&given(&dead), CONFIG).expect("mostly tombstones").inputs, [1, 2]);
        dead.droppable = false;
        assert_eq!(pick(&given(&dead), CONFIG), None);
    }

    #[test]
    fn a_table_that_is_mostly_expired_is_written_anew_by_itself_the_most_first() {
        let expired = |number, smallest: &str, largest: &str, expired_bytes| TableView {
            expired_bytes,
            ..table(number, smallest, largest, 100)
        };
        let tables = [
            (0, expired(9, "a", "z", 40)),
            (1, expired(1, "a", "c", 0)),
            (1, expired(2, "d", "f", 50)),
            (3, expired(3, "a", "c", 90)),
        ];
        let choice = pick(&levels(&tables), CONFIG).expect("mostly expired");
        assert_eq!(
            (choice.inputs, choice.level, choice.output_level, choice.only_move),
            (vec![3], 3, 3, false)
        );
        assert_eq!(pick(&levels(&tables[..3]), CONFIG).expect("half of it").inputs, [2]);
        assert_eq!(pick(&levels(&tables[1..2]), CONFIG), None, "too little of it");
        let full = PickConfig { room_bytes: 99, ..CONFIG };
        assert_eq!(pick(&levels(&tables), full), None, "there is no room");
        // Writers wait for level 0.
        let mut behind = tables.to_vec();
        behind.extend((20..28).map(|number| (0, table(number, "d", "k", 10))));
        assert_eq!(pick(&levels(&behind), CONFIG).expect("level 0 is behind").level, 0);
        // Nobody waits for those that are set aside there.
        behind.iter_mut().filter(|(_, table)| table.number >= 20).for_each(|(_, table)| table.damaged = true);
        assert_eq!(pick(&levels(&behind), CONFIG).expect("mostly expired").inputs, [3]);
    }

    #[test]
    fn a_disk_with_little_room_gets_a_smaller_compaction_or_none() {
        let mut given: Vec<_> = (5..9).map(|number| (0, table(number, "d", "k", 10))).collect();
        given.push((1, table(1, "a", "e", 20)));
        let within = |room_bytes| pick(&levels(&given), PickConfig { room_bytes, ..CONFIG });
        assert_eq!(within(60).expect("room for all").inputs, [5, 6, 7, 8, 1]);
        assert_eq!(within(59).expect("room for three").inputs, [5, 6, 7, 1]);
        assert_eq!(within(30).expect("room for one").inputs, [5, 1]);
        assert_eq!(within(29), None);
    }

    #[test]
    fn what_newer_tombstones_hide_is_trimmed_once_the_most_first() {
        let mut dead = table(9, "c", "k", 1);
        dead.tombstones = 6;
        let given = levels(&[
            (0, dead),
            (1, table(1, "a", "b", 500)),
            (1, table(2, "d", "e", 70)),
            (1, table(3, "f", "g", 80)),
            (1, table(10, "h", "k", 900)),
        ]);
        let mut trimmed = BTreeMap::new();
        let mut next = |room_bytes| {
            let (choice, up_to) = pick_to_trim(&given, &trimmed, room_bytes)?;
            trimmed.insert(choice.inputs[0], up_to);
            Some((choice.level, choice.output_level, choice.inputs))
        };
        assert_eq!(next(80), Some((1, 1, vec![3])));
        assert_eq!(next(69), None, "there is no room");
        assert_eq!(next(80), Some((1, 1, vec![2])));
        assert_eq!(next(80), None, "the others are newer, or elsewhere");
    }

    #[test]
    fn a_damaged_table_stays_and_blocks_only_what_overlaps_it() {
        let mut broken = table(3, "a", "c", 10);
        broken.damaged = true;
        let given = levels(&[(1, table(1, "a", "c", 900)), (1, table(2, "d", "f", 900)), (2, broken)]);
        assert_eq!(pick(&given, CONFIG).expect("the other").inputs, [2]);
    }
}
