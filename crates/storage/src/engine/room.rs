//! How much room there is on the disk.

use super::{Engine, Inner};

impl Engine {
    /// A put was refused before it came here, since [`Engine::write_state`] says that the disk is full.
    pub fn count_refused_full(&self) {
        self.inner.shared.blobs.count_refused_full(1);
    }

    /// Whether so many more bytes of values fit on the disk, by what was free a moment ago.
    pub fn has_room_for(&self, value_bytes: u64) -> bool {
        self.inner.shared.blobs.has_room_for(value_bytes)
    }
}

impl Inner {
    /// Looks how much there is. `None` if the system does not say.
    pub(super) fn observe_space(&self) -> Option<u64> {
        self.shared.blobs.observe_space()
    }
}
