use std::collections::BTreeSet;
use std::sync::Arc;

use ladoga_model::Version;

use super::Inner;
use crate::compaction::{Choice, Outputs, PickConfig, Purge, Surroundings, TableView, merge_tables, pick};
use crate::error::Error;
use crate::iterator::{LevelCursor, Source};
use crate::levels::{Edit, Levels};
use crate::options::LEVELS;
use crate::table::{Access, Table, TableCursor, TableMeta};

impl Inner {
    /// Does the most urgent compaction; `false` where none is.
    pub(super) fn compact_one(&self) -> Result<bool, Error> {
        self.check_writable()?;
        let levels = self.view.load().levels.clone();
        let damaged = self.background.damaged();
        let config = PickConfig { level_1_bytes: self.budget.level_1_bytes };
        let Some(choice) = pick(&views(&levels, &damaged, self.settled_before()), config) else {
            return Ok(false);
        };
        let inputs: Vec<(usize, Arc<Table>)> = levels
            .iter()
            .filter(|(_, table)| choice.inputs.contains(&table.meta().number))
            .map(|(level, table)| (level, table.clone()))
            .collect();
        if choice.only_move {
            self.install_compaction(&choice, &inputs, Vec::new())?;
            return Ok(true);
        }
        match self.merge(&choice, &inputs) {
            Ok(metas) => self.install_compaction(&choice, &inputs, metas)?,
            Err(error) => match self.background.mark_damaged(&inputs, &error) {
                Some((level, table)) => self.set_aside(*level, table)?,
                None => return Err(error),
            },
        }
        Ok(true)
    }

    /// Takes a damaged table out of the way: in level 0, where tables may overlap, no compaction needs it. Where it is,
    /// it would keep everything above from coming down.
    fn set_aside(&self, level: usize, table: &Arc<Table>) -> Result<(), Error> {
        if level == 0 {
            return Ok(());
        }
        let removed = vec![table.meta().number];
        let added = vec![(0, table.meta().clone())];
        let edit = Edit { added, removed: removed.clone(), ..Edit::default() };
        self.install(edit, &[(0, table.clone())], &removed, None)
    }

    fn merge(&self, choice: &Choice, inputs: &[(usize, Arc<Table>)]) -> Result<Vec<TableMeta>, Error> {
        let next_number = || self.new_file_number();
        let outputs = Outputs {
            disk: &*self.env.disk,
            dir: &self.dir,
            compression: self.options.compression[choice.output_level],
            table_bytes: self.budget.table_bytes,
            next_number: &next_number,
            stop: self.background.stopping(),
        };
        // Read before the view is: what is settled by then is in one of its memtables or tables. Memtables and tables are
        // of one view, and not those that the choice was made from: what was flushed since is in none of those.
        let settled_before = self.settled_before();
        let view = self.view.load_full();
        let purge = Purge {
            surroundings: Surroundings {
                levels: &view.levels,
                memtables: view.memtables().cloned().collect(),
                inputs: &choice.inputs,
                output_level: choice.output_level,
            },
            settled_before,
            now_ms: self.env.clock.wall_ms(),
        };
        let metas = merge_tables(sources(choice, inputs), &outputs, Some(&purge))?;
        self.sync_tables_dir()?;
        Ok(metas)
    }

    fn install_compaction(
        &self,
        choice: &Choice,
        inputs: &[(usize, Arc<Table>)],
        metas: Vec<TableMeta>,
    ) -> Result<(), Error> {
        let counters = &self.shared.counters;
        let bytes = |metas: &mut dyn Iterator<Item = &TableMeta>| metas.map(|meta| meta.file_bytes).sum();
        let removed = choice.inputs.clone();
        if choice.only_move {
            let added = inputs.iter().map(|(_, table)| (choice.output_level, table.meta().clone())).collect();
            let moved: Vec<_> =
                inputs.iter().map(|(_, table)| (choice.output_level, table.clone())).collect();
            let edit = Edit { added, removed: removed.clone(), ..Edit::default() };
            self.install(edit, &moved, &removed, None)?;
        } else {
            counters.compaction_read_bytes.add(bytes(&mut inputs.iter().map(|(_, table)| table.meta())));
            counters.compaction_written_bytes.add(bytes(&mut metas.iter()));
            let added = metas.iter().map(|meta| (choice.output_level, meta.clone())).collect();
            let edit = Edit { added, removed: removed.clone(), ..Edit::default() };
            let tables: Vec<_> =
                metas.into_iter().map(|meta| (choice.output_level, Table::new(&self.shared, meta))).collect();
            self.install(edit, &tables, &removed, None)?;
            let mut retired = self.retired.lock();
            for (_, table) in inputs {
                table.retire();
                retired.table(table.clone());
            }
        }
        counters.compactions.add(1);
        Ok(())
    }
}

fn views(levels: &Levels, damaged: &BTreeSet<u64>, settled_before: Version) -> [Vec<TableView>; LEVELS] {
    std::array::from_fn(|level| {
        let view = |table: &Arc<Table>| {
            let meta = table.meta();
            TableView {
                number: meta.number,
                smallest: meta.smallest.clone(),
                largest: meta.largest.clone(),
                disk_bytes: meta.disk_bytes(),
                records: meta.records,
                tombstones: meta.tombstones,
                settled: meta.newest < settled_before,
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
    sources.push(Source::Level(LevelCursor::new(of_level(choice.output_level).collect(), Access::Once)));
    sources
}
