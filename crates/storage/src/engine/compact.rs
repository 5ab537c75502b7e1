use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ladoga_model::Version;

use super::{Inner, View};
use crate::compaction::{
    Choice, Grandparents, Outputs, PickConfig, Purge, Surroundings, TableMerge, TableView, pick, pick_to_trim,
};
use crate::error::Error;
use crate::health::WriteState;
use crate::iterator::{LevelCursor, Source};
use crate::levels::{Edit, Levels};
use crate::options::LEVELS;
use crate::table::{Access, Table, TableCursor, TableMeta};

/// Tables, each with its level.
type Inputs = Vec<(usize, Arc<Table>)>;

/// What a compaction is to do.
struct Work {
    choice: Choice,
    inputs: Inputs,
    /// What its outputs may have.
    room_bytes: u64,
    /// If it is to leave out what newer tables hide: up to which version those reach.
    trims_up_to: Option<Version>,
}

/// A compaction that was begun. Nothing names its tables yet.
pub(super) struct Compaction {
    work: Work,
    drop_before: u64,
    expired_before_ms: u64,
    /// That of the oldest memtable at the beginning.
    oldest_log: u64,
    merge: TableMerge,
}

impl Inner {
    /// Goes on with the compaction that was begun, or begins the most urgent one, until its end or until `is_to_pause`; `false`
    /// if none is due, or another thread is at it. It does not wait for that one: a flush may come that is left to this thread.
    pub(super) fn compact_one(&self, is_to_pause: &dyn Fn() -> bool) -> Result<bool, Error> {
        let Some(mut unfinished) = self.upkeep.unfinished.try_lock() else { return Ok(false) };
        self.check_writable()?;
        self.set_damaged_aside()?;
        let mut compaction = match unfinished.take() {
            Some(compaction) => compaction,
            None => match self.choose() {
                None => return Ok(false),
                Some(Work { choice, inputs, .. }) if choice.only_move => {
                    self.install_move(&choice, &inputs)?;
                    return Ok(true);
                }
                Some(work) => match TableMerge::new(
                    sources(&work.choice, &work.inputs),
                    self.grandparents(&work.choice),
                ) {
                    Ok(merge) => self.begin_compaction(work, merge),
                    Err(error) => return self.leave_damaged(&work.inputs, error),
                },
            },
        };
        match self.merge(&mut compaction, is_to_pause) {
            Ok(true) => self.install_compaction(compaction)?,
            Ok(false) => *unfinished = Some(compaction),
            Err(error) => {
                if let Error::DiskFull { needed_bytes, .. } = error {
                    let (inputs, now_ns) = (&compaction.work.choice.inputs, self.env.clock.monotonic_ns());
                    self.background.given_up.note(inputs, needed_bytes, now_ns);
                }
                return self.leave_damaged(&compaction.work.inputs, error);
            }
        }
        Ok(true)
    }

    /// The most urgent compaction that the disk has room for beside the reserve, or has once some of the kept log is gone, or has in the
    /// reserve, with its tables. On a full disk, or if there is room for none, a table is trimmed first.
    fn choose(&self) -> Option<Work> {
        let levels = self.current_levels();
        let gone = (self.drop_before(), self.expired_before_ms());
        let aside = (self.background.damage.tables(), self.background.still_dead.with(self.oldest_log()));
        let views = views(&levels, &aside, gone);
        let work = |choice: Choice, room_bytes, trims_up_to| {
            let inputs = levels.iter().filter(|(_, table)| choice.inputs.contains(&table.meta().number));
            let inputs = inputs.map(|(level, table)| (level, table.clone())).collect();
            Some(Work { choice, inputs, room_bytes, trims_up_to })
        };
        let (level_1_bytes, overlap_bytes_max) = (self.budget.level_1_bytes, self.budget.overlap_bytes_max());
        let within = |room_bytes| pick(&views, PickConfig { level_1_bytes, room_bytes, overlap_bytes_max });
        // If the system does not say, it is tried.
        let free_bytes = self.observe_space().unwrap_or(u64::MAX);
        let without_log = || {
            let room_bytes = self.shared.blobs.with_kept_log(free_bytes);
            within(room_bytes).filter(|choice| self.make_room_for(choice))
        };
        // Log goes before a level is left behind for one that is less urgent.
        let level = within(self.shared.blobs.with_kept_log(free_bytes)).map(|choice| choice.level);
        let beside_reserve = within(free_bytes.saturating_sub(self.budget.reserve_bytes))
            .filter(|choice| level.is_none_or(|level| choice.level == level));
        if let Some(choice) = beside_reserve.or_else(without_log).or_else(|| within(free_bytes)) {
            return work(choice, u64::MAX, None);
        }
        let urgent = within(u64::MAX);
        if urgent.is_some() || self.health.state() == WriteState::DiskFull {
            let to_trim = pick_to_trim(&views, &self.background.trimmed(), free_bytes);
            if let Some((choice, up_to)) = to_trim {
                return work(choice, u64::MAX, Some(up_to));
            }
        }
        // It may come out smaller than it could.
        let urgent = urgent?;
        let room_bytes = self.room_to_try(&urgent, free_bytes)?;
        work(urgent, room_bytes, None)
    }

    /// How much room there is for a compaction that may have too little: what flushes need is left to them, and all of the kept log may go
    /// for it. `None` if that is less than it is known to take.
    fn room_to_try(&self, choice: &Choice, free_bytes: u64) -> Option<u64> {
        let with_log = self.shared.blobs.with_kept_log(free_bytes);
        let of_free = |free_bytes: u64| {
            let room_bytes = free_bytes.saturating_sub(self.budget.reserve_bytes / 2);
            let now_ns = self.env.clock.monotonic_ns();
            (!self.background.given_up.is_too_large(&choice.inputs, room_bytes, now_ns)).then_some(room_bytes)
        };
        // No log goes for one that has no room then either.
        of_free(with_log)?;
        let made = (with_log > free_bytes).then(|| self.shared.blobs.make_room(choice.input_bytes)).flatten();
        of_free(made.unwrap_or(free_bytes))
    }

    /// Removes as much of the log that is kept as a compaction lacks. Before it begins: a quick one fills the disk up before anybody looks
    /// how much is free. Answers whether there is room now; some file systems show it later.
    fn make_room_for(&self, choice: &Choice) -> bool {
        let wanted_bytes = choice.input_bytes.saturating_add(self.budget.reserve_bytes);
        self.shared.blobs.make_room(wanted_bytes).is_some_and(|free_bytes| choice.input_bytes <= free_bytes)
    }

    /// Handles an error in a compaction: a damaged table, if the error names one, is left alone from now on.
    fn leave_damaged(&self, inputs: &[(usize, Arc<Table>)], error: Error) -> Result<bool, Error> {
        match self.background.damage.mark(inputs, &error) {
            Some((level, table)) => self.set_aside(*level, table).map(|()| true),
            None => Err(error),
        }
    }

    /// Does so for those that it was not possible for when they were found: no compaction comes to them again.
    fn set_damaged_aside(&self) -> Result<(), Error> {
        if self.background.damage.count() == 0 {
            return Ok(());
        }
        let (damaged, levels) = (self.background.damage.tables(), self.current_levels());
        let mut left = levels.iter().filter(|(_, table)| damaged.contains(&table.meta().number));
        left.try_for_each(|(level, table)| self.set_aside(level, table))
    }

    /// Takes a damaged table out of the way: in level 0, where tables may overlap, no compaction has to include it. At its
    /// level it would keep everything above from coming down.
    fn set_aside(&self, level: usize, table: &Arc<Table>) -> Result<(), Error> {
        if level == 0 {
            return Ok(());
        }
        let removed = vec![table.meta().number];
        let added = vec![(0, table.meta().clone())];
        let edit = Edit { added, removed: removed.clone(), ..Edit::default() };
        self.install(edit, &[(0, table.clone())], &removed, None)
    }

    /// The tables below the outputs. Only compactions change those, one at a time.
    fn grandparents(&self, choice: &Choice) -> Grandparents {
        // What is written anew in its own level stays one table: in level 0, several would slow writers down.
        if choice.level == choice.output_level {
            return Grandparents::default();
        }
        let (levels, level) = (self.current_levels(), choice.output_level + 1);
        let below = if level < LEVELS { levels.level(level) } else { &[] };
        Grandparents::new(below, self.budget.overlap_bytes_max())
    }

    fn begin_compaction(&self, work: Work, merge: TableMerge) -> Compaction {
        // Read before any view is: everything older than this is then in one of the view's memtables or tables.
        let drop_before = self.drop_before();
        let (expired_before_ms, oldest_log) = (self.expired_before_ms(), self.oldest_log());
        Compaction { work, drop_before, expired_before_ms, oldest_log, merge }
    }

    /// The log of the oldest memtable: another one once that is flushed.
    fn oldest_log(&self) -> u64 {
        let view = self.reads.view.load();
        view.memtables().map(|memtable| memtable.wal_number()).min().expect("one is being filled")
    }

    /// Merges; answers whether it came to the end. It keeps no memtable that is flushed: snapshots would be given up for the memory of
    /// it, and give nothing back.
    fn merge(&self, compaction: &mut Compaction, is_to_pause: &dyn Fn() -> bool) -> Result<bool, Error> {
        loop {
            let (view, is_paused) = (self.reads.view.load_full(), Cell::new(false));
            let is_to_stop = || {
                is_paused.set(is_to_pause());
                is_paused.get() || view.memtables().any(|memtable| memtable.is_flushed())
            };
            if self.merge_within(&view, compaction, &is_to_stop)? {
                return Ok(true);
            }
            if is_paused.get() {
                return Ok(false);
            }
        }
    }

    /// Merges with a look at this view for older cells. Its memtables and tables must be of one view: what was flushed after the choice
    /// is not in the tables of the choice.
    fn merge_within(
        &self,
        view: &View,
        compaction: &mut Compaction,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let Compaction { work, drop_before, expired_before_ms, merge, .. } = compaction;
        let Work { choice, room_bytes, trims_up_to, .. } = work;
        let next_number = || self.new_file_number();
        let outputs = Outputs {
            disk: &*self.env.disk,
            dir: &self.dir,
            compression: self.options.compression[choice.output_level],
            table_bytes: self.budget.table_bytes,
            room_bytes: *room_bytes,
            next_number: &next_number,
            stop: self.background.stopping(),
        };
        let purge = Purge {
            surroundings: Surroundings {
                levels: &view.levels,
                memtables: view.memtables().cloned().collect(),
                inputs: &choice.inputs,
                output_level: choice.output_level,
                trims: trims_up_to.is_some(),
            },
            drop_before: *drop_before,
            expired_before_ms: *expired_before_ms,
        };
        let is_whole = merge.run(&outputs, Some(&purge), is_to_stop)?;
        if is_whole {
            self.sync_tables_dir().inspect_err(|_| merge.discard(&*self.env.disk, &self.dir))?;
        }
        Ok(is_whole)
    }

    /// Discards a compaction that will not be resumed.
    pub(super) fn discard_unfinished(&self) {
        if let Some(Compaction { merge, .. }) = self.upkeep.unfinished.lock().take() {
            merge.discard(&*self.env.disk, &self.dir);
        }
    }

    fn install_move(&self, choice: &Choice, inputs: &[(usize, Arc<Table>)]) -> Result<(), Error> {
        let added = inputs.iter().map(|(_, table)| (choice.output_level, table.meta().clone())).collect();
        let moved: Vec<_> = inputs.iter().map(|(_, table)| (choice.output_level, table.clone())).collect();
        let edit = Edit { added, removed: choice.inputs.clone(), ..Edit::default() };
        self.install(edit, &moved, &choice.inputs, None)?;
        self.note_how_flushed_goes_on(choice);
        self.shared.counters.compactions.add(1);
        Ok(())
    }

    fn install_compaction(&self, compaction: Compaction) -> Result<(), Error> {
        let Compaction { work, drop_before, oldest_log, merge, .. } = compaction;
        let Work { choice, inputs, trims_up_to, .. } = work;
        let counters = &self.shared.counters;
        counters.expired_values.add(merge.expired_values());
        let dropped_up_to = self.note_dropped(merge.dropped_up_to());
        let metas = merge.into_tables();
        let bytes = |metas: &mut dyn Iterator<Item = &TableMeta>| metas.map(|meta| meta.file_bytes).sum();
        counters.compaction_read_bytes.add(bytes(&mut inputs.iter().map(|(_, table)| table.meta())));
        counters.compaction_written_bytes.add(bytes(&mut metas.iter()));
        let added = metas.iter().map(|meta| (choice.output_level, meta.clone())).collect();
        let edit = Edit { added, removed: choice.inputs.clone(), dropped_up_to, ..Edit::default() };
        let tables: Vec<_> =
            metas.into_iter().map(|meta| (choice.output_level, Table::new(&self.shared, meta))).collect();
        self.install(edit, &tables, &choice.inputs, None)?;
        self.note_how_flushed_goes_on(&choice);
        if let Some(up_to) = trims_up_to {
            let trimmed: Vec<u64> = tables.iter().map(|(_, table)| table.meta().number).collect();
            self.background.note_trimmed(&trimmed, up_to, &self.current_levels());
        }
        if choice.level == choice.output_level {
            self.note_still_dead(&tables, drop_before, oldest_log);
        }
        let mut retired = self.upkeep.retired.lock();
        for (_, table) in inputs {
            table.retire();
            retired.table(table);
        }
        drop(retired);
        counters.compactions.add(1);
        Ok(())
    }

    fn note_how_flushed_goes_on(&self, choice: &Choice) {
        if (choice.level, choice.output_level) == (0, 1) {
            self.upkeep.flushed_is_moved.store(choice.only_move, Ordering::Relaxed);
        }
    }

    /// Notes those of the last level that are mostly tombstones although all of these could go by their age.
    fn note_still_dead(&self, tables: &[(usize, Arc<Table>)], drop_before: u64, oldest_log: u64) {
        let is_dead =
            |meta: &TableMeta| meta.tombstones * 2 > meta.records && meta.last_deletion() < drop_before;
        let metas = tables.iter().filter(|(level, _)| *level == LEVELS - 1).map(|(_, table)| table.meta());
        let dead: Vec<u64> = metas.filter(|meta| is_dead(meta)).map(|meta| meta.number).collect();
        let levels = self.current_levels();
        let is_living = |number| levels.level(LEVELS - 1).iter().any(|table| table.meta().number == number);
        self.background.still_dead.note(&dead, oldest_log, is_living);
    }
}

/// What the choice goes by: tables that are damaged or are still dead, and `drop_before` and `expired_before_ms` as a compaction that
/// begins now has them.
fn views(
    levels: &Levels,
    (damaged, still_dead): &(BTreeSet<u64>, BTreeSet<u64>),
    (drop_before, expired_before_ms): (u64, u64),
) -> [Vec<TableView>; LEVELS] {
    std::array::from_fn(|level| {
        let view = |table: &Arc<Table>| {
            let meta = table.meta();
            TableView {
                number: meta.number,
                smallest: meta.smallest.clone(),
                largest: meta.largest.clone(),
                file_bytes: meta.file_bytes,
                disk_bytes: meta.disk_bytes(),
                records: meta.records,
                tombstones: meta.tombstones,
                oldest: meta.oldest,
                newest: meta.newest,
                droppable: meta.last_deletion() < drop_before && !still_dead.contains(&meta.number),
                expired_bytes: meta.expiries.mostly_expired_bytes(expired_before_ms),
                damaged: damaged.contains(&meta.number),
            }
        };
        levels.level(level).iter().map(view).collect()
    })
}

fn sources(choice: &Choice, inputs: &[(usize, Arc<Table>)]) -> Vec<Source> {
    let of_level = |wanted: usize| {
        let tables = inputs.iter().filter(move |(level, _)| *level == wanted);
        tables.map(|(_, table)| table.clone())
    };
    let mut sources = Vec::new();
    if choice.level == 0 {
        sources.extend(of_level(0).map(|table| Source::Table(TableCursor::new(table, Access::Once))));
    } else {
        sources.push(Source::Level(LevelCursor::new(of_level(choice.level).collect(), Access::Once)));
    }
    if choice.output_level != choice.level {
        sources.push(Source::Level(LevelCursor::new(of_level(choice.output_level).collect(), Access::Once)));
    }
    sources
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "compact_room_tests.rs"]
mod room_tests;

#[cfg(test)]
#[path = "compact_overlap_tests.rs"]
mod overlap_tests;
