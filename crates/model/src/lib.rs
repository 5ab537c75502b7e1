//! The values everyone speaks of: keys, versions, stamps, consistency, durability, limits. No I/O, no clock, no threads, no unsafe.
#![forbid(unsafe_code)]

mod cell;
mod durability;
mod hybrid_clock;
mod key;
mod quote;
mod reader;
mod replicas;
mod trace;
mod ttl;
mod version;

pub use cell::{Cell, CellMark, Value};
pub use durability::Durability;
pub use hybrid_clock::{ClockError, HybridClock};
pub use key::{KEY_BYTES_MAX, KeyError, VALUE_BYTES_MAX, check_key};
pub use quote::Quote;
pub use reader::Reader;
pub use replicas::{Replicas, ReplicasError};
pub use trace::{TraceContext, TraceParent};
pub use ttl::{TTL_MS_MAX, Ttl, TtlError};
pub use version::{Stamp, Version};
