//! Where the program calls the profiler: the global allocator, and the signal of the CPU timers.

pub(crate) mod allocator;
pub(crate) mod timers;
