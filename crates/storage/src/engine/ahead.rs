use ladoga_model::Version;

use super::Engine;
use crate::coding::key_hash;
use crate::prefetch::KEYS_AHEAD_MAX;

impl Engine {
    /// Has the processor fetch what reads and writes of these keys are about to look at in memory. Changes nothing.
    ///
    /// A look-up waits for memory several times, each time for a place that the one before names. Here many look-ups wait
    /// together: one step of all of them, then the next.
    pub fn fetch_ahead(&self, keys: &[&[u8]]) {
        let reads = &self.inner.reads;
        let view = reads.view.load();
        let has_tables = view.levels.newest_of_all() > Version::ZERO;
        for keys in keys.chunks(KEYS_AHEAD_MAX) {
            let mut hashes = [0; KEYS_AHEAD_MAX];
            hashes.iter_mut().zip(keys).for_each(|(hash, key)| *hash = key_hash(key));
            let hashes = &hashes[..keys.len()];
            if has_tables {
                hashes.iter().for_each(|&hash| reads.records.prefetch(hash));
            }
            for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
                memtable.fetch_ahead(hashes);
            }
            if has_tables {
                hashes.iter().for_each(|&hash| reads.records.prefetch_record(hash));
            }
        }
    }
}
