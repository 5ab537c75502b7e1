use std::cell::Cell;

/// Records between two looks: less than a tenth of a millisecond.
const RECORDS: u32 = 32;

/// When work in the background looks at what goes on beside it: with the first record, and with many after that.
#[derive(Default)]
pub(super) struct Looks {
    records: Cell<u32>,
}

impl Looks {
    /// With each record.
    pub(super) fn is_due(&self) -> bool {
        let records = self.records.get();
        self.records.set((records + 1) % RECORDS);
        records == 0
    }
}
