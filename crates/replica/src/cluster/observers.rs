use std::sync::Arc;

use ladoga_local::store::{CellChange, CellObserver, SupersededCell};

use crate::fences::FenceKeeper;
use crate::stability::Stability;

/// Who is told of every cell: what is compared with peers, and what was promised.
pub(super) struct Observers {
    pub(super) stability: Arc<Stability>,
    pub(super) fences: Arc<FenceKeeper>,
}

impl CellObserver for Observers {
    fn begins(&self) {
        self.stability.begins();
    }

    fn replaced(&self, changes: &[CellChange]) {
        self.stability.replaced(changes);
        self.fences.lift(changes);
    }

    fn superseded(&self, cells: &[SupersededCell]) {
        self.stability.superseded(cells);
    }

    fn scan_completed(&self) {
        self.stability.scan_completed();
    }
}
