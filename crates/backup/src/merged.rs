use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::Stamp;
use ladoga_storage::{Cell, OfflineCells, OfflineStore};

use crate::error::Error;
use crate::repository::{Backup, NodeBackup, Repository};
use crate::view::View;

/// The cells of one node of a backup.
pub struct NodeCells {
    cells: OfflineCells,
    view: Arc<View>,
    next: Option<(Bytes, Cell)>,
}

/// The newest cell of each key that any node of a backup has, in the order of the keys; deletions included.
///
/// All nodes at once, because each of them may lack some: the deletion of a value that one node has is on another, and whoever took
/// the one without the other would bring it back.
pub struct MergedCells {
    nodes: Vec<NodeCells>,
    /// How many nodes the cluster had; 0 of a node on its own.
    cluster: usize,
    /// How many records all their tables have, those that are replaced included.
    records: u64,
    /// How many of them were taken so far.
    taken: u64,
}

impl NodeCells {
    fn open(repository: &Repository, node: &NodeBackup, place: usize) -> Result<NodeCells, Error> {
        let files = node.files.iter().map(|file| (file.file, repository.file(file.stored)));
        let view = View::new(repository.disk(), place, files);
        let store = OfflineStore::open(Arc::clone(&view) as _, view.dir(), &node.tables)
            .map_err(|error| view.named(error))?;
        let mut cells =
            NodeCells { cells: store.cells().map_err(|error| view.named(error))?, view, next: None };
        cells.advance()?;
        Ok(cells)
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.next = self.cells.next_cell().map_err(|error| self.named(error))?;
        Ok(())
    }

    fn named(&self, error: ladoga_storage::Error) -> Error {
        Error::Store(self.view.named(error))
    }
}

impl MergedCells {
    /// Those of this backup.
    pub fn open(repository: &Repository, backup: &Backup) -> Result<MergedCells, Error> {
        let nodes = backup.nodes.iter().enumerate();
        let nodes: Result<_, _> =
            nodes.map(|(place, node)| NodeCells::open(repository, node, place)).collect();
        let records = backup.nodes.iter().map(|node| node.tables.records()).fold(0, u64::saturating_add);
        Ok(MergedCells { nodes: nodes?, cluster: backup.cluster.len(), records, taken: 0 })
    }

    /// As much of this total as was taken of the records. It may stay below it: what a node has replaced is not given.
    pub(crate) fn share_of(&self, total: u64) -> u64 {
        let share = u128::from(total) * u128::from(self.taken.min(self.records));
        share.checked_div(u128::from(self.records)).map_or(total, |share| share as u64)
    }

    /// The next key and its newest cell; `None` at the end.
    pub fn next_cell(&mut self) -> Result<Option<(Bytes, Cell)>, Error> {
        let heads = self.nodes.iter().filter_map(|node| node.next.as_ref().map(|(key, _)| key));
        let Some(key) = heads.min().cloned() else { return Ok(None) };
        let mut newest: Option<Cell> = None;
        for node in &mut self.nodes {
            if node.next.as_ref().is_none_or(|(head, _)| *head != key) {
                continue;
            }
            self.taken += 1;
            let found = node.next.take().map(|(_, cell)| cell);
            node.advance()?;
            newest = better(newest, found);
        }
        let newest = newest.map(|cell| Cell { stamp: of_any_cluster(cell.stamp, self.cluster), ..cell });
        Ok(newest.map(|cell| (key, cell)))
    }

    /// An error of reading a large value, about the file that it is in.
    pub fn named(&self, error: ladoga_storage::Error) -> Error {
        let named = |error, node: &NodeCells| node.view.named(error);
        Error::Store(self.nodes.iter().fold(error, named))
    }
}

/// A cell that was for all of so many nodes of its cluster is for all nodes of any other.
pub(crate) fn of_any_cluster(mut stamp: Stamp, cluster: usize) -> Stamp {
    if usize::from(stamp.copies) >= cluster {
        stamp.copies = 0;
    }
    stamp
}

/// The newer one. Of one version, the one that still has its value: where it has expired, a node may have dropped it.
fn better(known: Option<Cell>, found: Option<Cell>) -> Option<Cell> {
    let (Some(known), Some(found)) = (&known, &found) else { return known.or(found) };
    let order = |cell: &Cell| (cell.stamp.version, cell.value.is_some());
    if order(found) > order(known) { Some(found.clone()) } else { Some(known.clone()) }
}
