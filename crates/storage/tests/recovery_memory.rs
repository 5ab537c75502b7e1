//! How much memory it takes to open a store that was written with more. In a process of its own, which it measures.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::PathBuf;

use ladoga_env::real;
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Background, Durability, Engine, MEMORY_BYTES_MIN, Options, WriteBatch, read_value};

const VALUE_BYTES: usize = 200 << 10;
const VALUES: u64 = 280;
/// Memtables, the tables that they are written to, and the window of the log: all that `--memory` pays for.
const PEAK_BYTES_MAX: u64 = MEMORY_BYTES_MIN;

/// A directory that is removed when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// A figure of this process that the system keeps in KiB.
fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[expect(clippy::disallowed_methods, reason = "no file, but the system's way to begin the peak anew")]
fn forget_the_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn options(memory_bytes: u64, memtable_bytes: Option<usize>) -> Options {
    let background = Background::Manual;
    Options {
        background,
        memtable_bytes,
        first_segment_bytes: Some(u64::MAX),
        ..Options::new(memory_bytes, Durability::Never)
    }
}

#[test]
fn a_log_is_not_in_memory_as_a_whole() {
    let scratch = Scratch(std::env::temp_dir().join(format!("ladoga-recovery-{}", std::process::id())));
    let engine = Engine::open(real::env().unwrap(), &scratch.0, options(1 << 30, Some(64 << 20))).unwrap();
    for n in 0..VALUES {
        let mut batch = WriteBatch::new();
        batch.put(
            &n.to_be_bytes(),
            Stamp::new(Version { timestamp: n + 1, node: 1 }),
            &vec![n as u8; VALUE_BYTES],
        );
        engine.write_group(&[batch]).unwrap();
    }
    assert_eq!(engine.statistics().flushes, 0, "all of it is in one segment");
    drop(engine);

    forget_the_peak();
    let before = status_bytes("VmRSS:");
    let engine = Engine::open(real::env().unwrap(), &scratch.0, options(MEMORY_BYTES_MIN, None)).unwrap();
    let peak = status_bytes("VmHWM:").saturating_sub(before);
    assert!(peak <= PEAK_BYTES_MAX, "{peak} bytes");
    assert!(engine.statistics().levels[0].tables > 20);
    for n in 0..VALUES {
        let value = read_value(&engine.get(&n.to_be_bytes()).unwrap().unwrap()).unwrap();
        assert_eq!((value.len(), value[0]), (VALUE_BYTES, n as u8));
    }
}
