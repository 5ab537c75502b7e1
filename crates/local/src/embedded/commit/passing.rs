use ladoga_storage::{Fate, WriteBatch};
use xxhash_rust::xxh3::xxh3_64;

use super::inbox::{Outcome, WaitingWrite};
use crate::store::{CellGate, FencedCell, Passage, StoreError};

/// A cell that was fenced off or got another version: its number in its group, and which of the two.
pub(super) type Passed = (usize, Passage);

/// Whether all cells pass as they are, with one look for each batch.
pub(super) fn is_open(gate: &dyn CellGate, batches: &[WriteBatch]) -> bool {
    batches.iter().all(|batch| gate.is_open_to(batch.oldest()))
}

/// Checks the cells of a group at the gate: drops those that are fenced off, and rewrites those that get another version.
/// Answers both.
pub(super) fn pass(gate: &dyn CellGate, batches: &mut [WriteBatch]) -> Vec<Passed> {
    let mut passed = Vec::new();
    let mut first_cell = 0;
    for batch in batches {
        let (cells, first_passed) = (batch.len(), passed.len());
        if !gate.is_open_to(batch.oldest()) {
            let passages = batch.cells().map(|(key, cell)| gate.pass(xxh3_64(key), cell.stamp.version));
            let others = passages.enumerate().filter(|(_, passage)| *passage != Passage::Open);
            passed.extend(others.map(|(cell, passage)| (first_cell + cell, passage)));
        }
        let mut of_batch = passed[first_passed..].iter().peekable();
        if of_batch.peek().is_some() {
            batch.rewrite(|cell| {
                match of_batch
                    .next_if(|(number, _)| *number == first_cell + cell)
                    .map(|(_, passage)| *passage)
                {
                    None | Some(Passage::Open) => Fate::Stays,
                    Some(Passage::Renewed(version)) => Fate::Renewed(version),
                    Some(Passage::Fenced(_)) => Fate::Goes,
                }
            });
        }
        first_cell += cells;
    }
    passed
}

/// The answers that differ from the outcome of the group, because of what the gate did to their cells. `waiting` are the
/// requests whose cells begin at `first_cell`, in order.
pub(super) fn exceptions(
    waiting: &[WaitingWrite],
    first_cell: &mut usize,
    passed: &[Passed],
) -> Vec<(u32, Outcome)> {
    let mut exceptions = Vec::new();
    let behind = *first_cell;
    let mut passed = passed.iter().skip_while(|(cell, _)| *cell < behind).peekable();
    for WaitingWrite { waiter, cells } in waiting {
        let (first, end) = (*first_cell, *first_cell + *cells as usize);
        *first_cell = end;
        let (mut renewed, mut fenced) = (None, Vec::new());
        while let Some((cell, passage)) = passed.next_if(|(cell, _)| *cell < end) {
            match *passage {
                Passage::Open => {}
                Passage::Renewed(version) => renewed = Some(version),
                Passage::Fenced(fence) => fenced.push(FencedCell { cell: cell - first, fence }),
            }
        }
        if !fenced.is_empty() {
            exceptions.push((*waiter, Err(StoreError::Fenced(fenced))));
        } else if renewed.is_some() {
            exceptions.push((*waiter, Ok(renewed)));
        }
    }
    exceptions
}

/// The answers that differ from a failure of the group, to the requests all of whose cells come before `stored`. `passed` are those that
/// differ from success. The cells begin at `first_cell`.
pub(super) fn exceptions_of_stored(
    waiting: &[WaitingWrite],
    first_cell: usize,
    stored: usize,
    passed: Vec<(u32, Outcome)>,
) -> Vec<(u32, Outcome)> {
    let (mut end, mut passed) = (first_cell, passed.into_iter().peekable());
    let of_one = |WaitingWrite { waiter, cells }: &WaitingWrite| {
        end += *cells as usize;
        let of_gate = passed.next_if(|(of, _)| of == waiter);
        (end <= stored).then(|| of_gate.unwrap_or((*waiter, Ok(None))))
    };
    waiting.iter().map_while(of_one).collect()
}

/// How many cells a group had before the gate, up to behind so many of those that are left.
pub(super) fn cells_before(left: usize, passed: &[Passed]) -> usize {
    let fenced = passed.iter().filter(|(_, passage)| matches!(passage, Passage::Fenced(_)));
    fenced.fold(left, |cells, (fenced, _)| if *fenced <= cells { cells + 1 } else { cells })
}

#[cfg(test)]
mod tests {
    use ladoga_model::{Stamp, Version};

    use super::*;

    fn version(timestamp: u64) -> Version {
        Version { timestamp, node: 0 }
    }

    /// Fences cells before 10, and renews those before 20.
    struct Gate;

    impl CellGate for Gate {
        fn is_open_to(&self, timestamp: u64) -> bool {
            timestamp >= 20
        }

        fn pass(&self, _: u64, cell: Version) -> Passage {
            match cell.timestamp {
                0..10 => Passage::Fenced(version(10)),
                10..20 => Passage::Renewed(version(cell.timestamp + 100)),
                _ => Passage::Open,
            }
        }
    }

    fn batch(timestamps: &[u64]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        timestamps.iter().for_each(|&timestamp| batch.put(b"key", Stamp::new(version(timestamp)), b""));
        batch
    }

    fn timestamps(batch: &WriteBatch) -> Vec<u64> {
        batch.cells().map(|(_, cell)| cell.stamp.version.timestamp).collect()
    }

    #[test]
    fn each_who_waits_is_told_of_its_own_cells() {
        let mut batches = [batch(&[20, 5, 21]), batch(&[30, 31]), batch(&[9, 12, 40, 8])];
        assert!(!is_open(&Gate, &batches) && is_open(&Gate, &batches[1..2]));
        let passed = pass(&Gate, &mut batches);
        assert_eq!(batches.each_ref().map(timestamps), [vec![20, 21], vec![30, 31], vec![112, 40]]);
        let waiting = [(1, 1), (2, 3), (3, 0), (4, 1), (5, 2), (6, 1), (7, 1)];
        let waiting = waiting.map(|(waiter, cells)| WaitingWrite { waiter, cells });
        let fenced = |cells: &[usize]| {
            Err(StoreError::Fenced(
                cells.iter().map(|&cell| FencedCell { cell, fence: version(10) }).collect(),
            ))
        };
        let expected = [(2, fenced(&[0])), (5, fenced(&[0])), (7, fenced(&[0]))];
        let mut first_cell = 0;
        assert_eq!(exceptions(&waiting, &mut first_cell, &passed), expected);
        assert_eq!(first_cell, 9);
        // In two shares, as of two event loops.
        let mut first_cell = 0;
        let of_first = exceptions(&waiting[..3], &mut first_cell, &passed);
        let of_second = exceptions(&waiting[3..], &mut first_cell, &passed);
        assert_eq!([of_first, of_second].concat(), expected);
        let whole = [WaitingWrite { waiter: 1, cells: 9 }];
        assert_eq!(exceptions(&whole, &mut 0, &passed), [(1, fenced(&[1, 5, 8]))]);
    }

    #[test]
    fn who_is_stored_is_told_so_although_the_group_failed() {
        let mut batches = [batch(&[5, 12]), batch(&[20]), batch(&[6, 7, 21])];
        let passed = pass(&Gate, &mut batches);
        // With those that were fenced off.
        assert_eq!([0, 1, 2, 3].map(|left| cells_before(left, &passed)), [1, 2, 5, 6]);
        let waiting = [(1, 1), (2, 1), (3, 2), (4, 2)];
        let waiting = waiting.map(|(waiter, cells)| WaitingWrite { waiter, cells });
        let told = |stored| {
            let passed = exceptions(&waiting, &mut 0, &passed);
            exceptions_of_stored(&waiting, 0, stored, passed)
        };
        let fenced = Err(StoreError::Fenced(vec![FencedCell { cell: 0, fence: version(10) }]));
        let renewed = Ok(Some(version(112)));
        assert_eq!(
            told(3),
            [(1, fenced.clone()), (2, renewed.clone())],
            "the last has a cell that is not stored"
        );
        assert!(told(0).is_empty());
        let plain = exceptions_of_stored(&waiting, 0, 4, Vec::new());
        assert_eq!(plain, [(1, Ok(None)), (2, Ok(None)), (3, Ok(None))]);
        assert_eq!(
            exceptions_of_stored(&waiting, 4, 5, Vec::new()),
            [(1, Ok(None))],
            "they begin behind others"
        );
    }

    #[test]
    fn who_got_another_version_is_told_which() {
        let mut batches = [batch(&[15, 25])];
        let passed = pass(&Gate, &mut batches);
        let waiting = [WaitingWrite { waiter: 3, cells: 1 }, WaitingWrite { waiter: 4, cells: 1 }];
        assert_eq!(exceptions(&waiting, &mut 0, &passed), [(3, Ok(Some(version(115))))]);
        assert_eq!(timestamps(&batches[0]), [115, 25]);
    }
}
