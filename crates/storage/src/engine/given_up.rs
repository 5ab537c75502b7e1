use parking_lot::Mutex;

/// So long after it was given up, a compaction may come out smaller: values expire, and deletions get old enough to be dropped.
const AGAIN_AFTER_NS: u64 = 60_000_000_000;

/// The compaction that was given up last because it came out larger than the disk has room for. Each attempt fills the disk up until
/// then, and puts are refused meanwhile.
#[derive(Default)]
pub(super) struct GivenUp(Mutex<Option<TooLarge>>);

struct TooLarge {
    inputs: Vec<u64>,
    /// It takes so much at least.
    bytes: u64,
    since_ns: u64,
}

impl GivenUp {
    pub(super) fn note(&self, inputs: &[u64], bytes: u64, now_ns: u64) {
        *self.0.lock() = Some(TooLarge { inputs: inputs.to_vec(), bytes, since_ns: now_ns });
    }

    /// Whether a compaction of these tables would be given up again, with so much room.
    pub(super) fn is_too_large(&self, inputs: &[u64], room_bytes: u64, now_ns: u64) -> bool {
        self.0.lock().as_ref().is_some_and(|last| {
            let is_recent = now_ns.saturating_sub(last.since_ns) < AGAIN_AFTER_NS;
            is_recent && room_bytes < last.bytes && last.inputs == inputs
        })
    }
}
