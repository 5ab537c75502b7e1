//! What the profiler reads from `/proc`. It profiles the real process and no simulated one, so these reads do not go
//! through the node's disk seam.
#![expect(clippy::disallowed_methods, reason = "/proc and the executable describe the real process only")]

use std::io::Read;
use std::path::Path;

/// Numbers of all threads of this process.
pub(crate) fn thread_ids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The thread's name, at most 15 bytes as the kernel keeps it.
pub(crate) fn thread_name(id: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/self/task/{id}/comm")).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// Numbers of the cores that run, as in `0-3,6`.
pub(crate) fn online_cores() -> Vec<u32> {
    let text =
        std::fs::read("/sys/devices/system/cpu/online").map_or_else(|_| String::new(), |bytes| lossy(&bytes));
    text.trim().split(',').filter_map(core_range).flatten().collect()
}

fn core_range(text: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// The words with which this process was started.
pub(crate) fn command_line() -> String {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(lossy);
    // The name of its file tells what it is; the directory tells nothing to a reader elsewhere.
    let name = words.next().map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
    name.into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

pub(crate) fn memory_maps() -> String {
    std::fs::read("/proc/self/maps").map_or_else(|_| String::new(), |bytes| lossy(&bytes))
}

pub(crate) fn kernel_symbols() -> String {
    std::fs::read("/proc/kallsyms").map_or_else(|_| String::new(), |bytes| lossy(&bytes))
}

/// The first bytes of a file; fewer if it is shorter, none if it cannot be read.
pub(crate) fn head_of(path: &Path, bytes_max: u64) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        // What was read before an error is as good as a short file.
        let _ = file.take(bytes_max).read_to_end(&mut head);
    }
    head
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_ranges_and_numbers() {
        assert_eq!((core_range("0-3"), core_range("6"), core_range("")), (Some(0..=3), Some(6..=6), None));
        assert!(!online_cores().is_empty());
    }

    #[test]
    fn this_thread_is_among_the_threads() {
        let own = crate::sys::calls::thread_id();
        assert!(thread_ids().contains(&own));
        assert!(thread_name(own).is_some_and(|name| !name.is_empty()));
        assert!(memory_maps().contains("r-xp"));
    }
}
