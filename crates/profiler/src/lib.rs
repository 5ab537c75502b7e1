//! Profiles of the running process: which code uses CPU time, which allocates, which waits; and how people look at them.
//!
//! ```text
//! Profiler::start(kind, options) -> Session -> finish() -> Profile -> render(Format) -> bytes
//! ```
//!
//! - [`Kind::Cpu`]: samples of all threads from the kernel (`perf_event_open`), or from per-thread CPU timers if the kernel
//!   refuses.
//! - [`Kind::Alloc`]: one sample per so many bytes, if [`ProfilingAllocator`] is the global allocator.
//! - [`Kind::Lock`]: time off the CPU by call site, from the kernel's context switches.
//!
//! One profile of a kind at a time. While none runs, all of this costs one relaxed load per allocation.
//! Linux only.

mod collector;
mod cpu;
mod date;
mod difference;
mod error;
mod hooks;
mod kind;
mod memory;
mod options;
mod own;
mod profile;
mod program;
mod recorder;
mod render;
mod ring;
mod session;
mod source;
mod stack;
mod symbols;
mod sys;
mod thinning;
mod wait;

pub use date::date;
pub use difference::{BadProfile, Basis, Changed, Difference, NamedStacks, Recorded};
pub use error::ProfileError;
pub use hooks::allocator::ProfilingAllocator;
pub use kind::Kind;
pub use options::{
    ALLOC_INTERVAL_BYTES_MAX, ALLOC_INTERVAL_BYTES_MIN, FREQUENCY_HZ_MAX, FREQUENCY_HZ_MIN, Mechanism,
    Options,
};
pub use profile::{Frame, FrameKind, Profile, Sample, StackId, StackTable, Thread};
pub use program::{Program, name_program, program_version};
pub use render::{FLAME_SCRIPT, FLAME_STYLE, Folded, Format};
pub use session::{Claim, Profiler, Session};
pub use stack::FRAME_POINTERS;
