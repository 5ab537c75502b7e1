//! Compaction: which tables to merge (`pick`, pure), which records to let go (`purge`, pure), and the merging (`run`).

mod grandparents;
mod pick;
mod purge;
mod run;

pub(crate) use grandparents::Grandparents;
pub(crate) use pick::{Choice, PickConfig, TableView, pick, pick_to_trim};
pub(crate) use purge::{Surroundings, may_drop, without_expired_value};
pub(crate) use run::{Outputs, Purge, TableMerge};
