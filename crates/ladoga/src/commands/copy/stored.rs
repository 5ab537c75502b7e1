/// What became of some records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) records: u64,
    pub(super) expired: u64,
}

impl Stored {
    pub(super) fn add(&mut self, other: Stored) {
        self.records += other.records;
        self.expired += other.expired;
    }
}
