//! Everything that std does not offer, and all `unsafe` of this crate: system calls, the ring that is shared with the
//! kernel, per-thread CPU timers, the global allocator.

pub(crate) mod allocator;
pub(crate) mod calls;
pub(crate) mod files;
pub(crate) mod perf_event;
pub(crate) mod timers;
