use std::thread::available_parallelism;

use ladoga_storage::MEMORY_BYTES_MIN;
use rustix::process::{Resource, getrlimit, setrlimit};

/// The share of the machine's memory that a node takes where nothing is said.
const MEMORY_SHARE: u64 = 4;

pub(super) fn default_memory_bytes() -> u64 {
    // In whole MiB, which people can read.
    ((memory_bytes() / MEMORY_SHARE) >> 20 << 20).max(MEMORY_BYTES_MIN)
}

/// The memory of the machine, or of the part of it that this process may use.
fn memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    let of_machine = machine.totalram as u64 * u64::from(machine.mem_unit);
    // Where there is no group, or no limit ("max"), the machine is the limit.
    let of_group = std::fs::read_to_string("/sys/fs/cgroup/memory.max");
    let of_group = of_group.ok().and_then(|text| text.trim().parse().ok());
    of_machine.min(of_group.unwrap_or(u64::MAX))
}

pub(super) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Lets the process have as many open files and connections as the system permits; answers how many.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, wanted).is_ok() {
        limit = wanted;
    }
    limit.current.unwrap_or(u64::MAX)
}
