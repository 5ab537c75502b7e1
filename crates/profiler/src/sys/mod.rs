//! Everything that std does not offer: system calls, the ring that is shared with the kernel, the unwinder. The rest of this
//! crate's `unsafe` is in `hooks`.

pub(crate) mod calls;
pub(crate) mod files;
pub(crate) mod perf_event;
pub(crate) mod unwind;

/// Frames kept of one stack, from the leaf; deeper ones are cut off.
pub(crate) const FRAMES_MAX: usize = 96;
