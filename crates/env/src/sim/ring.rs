use super::state::DiskState;
use crate::disk::{EndedRead, FilePart, ReadRing};
use parking_lot::Mutex;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A ring whose reads all end in the turn that sends them off, in the order that the disk's dice give.
pub(super) struct SimRing {
    state: Arc<Mutex<DiskState>>,
    pushed: Vec<(u64, FilePart)>,
    reads_max: usize,
}

impl SimRing {
    pub(super) fn new(state: Arc<Mutex<DiskState>>, reads_max: usize) -> SimRing {
        SimRing { state, pushed: Vec::new(), reads_max }
    }
}

impl ReadRing for SimRing {
    fn push(&mut self, token: u64, part: FilePart) {
        assert!(self.pushed.len() < self.reads_max, "at most {} reads at a time", self.reads_max);
        self.pushed.push((token, part));
    }

    fn turn(&mut self, ended: &mut Vec<EndedRead>) -> io::Result<()> {
        while !self.pushed.is_empty() {
            let next = self.state.lock().pick(self.pushed.len());
            let (token, part) = self.pushed.swap_remove(next);
            let mut bytes = vec![0; part.len];
            let result = part.file.read_exact_at(&mut bytes, part.offset);
            ended.push(EndedRead { token, bytes: result.map(|()| bytes) });
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
