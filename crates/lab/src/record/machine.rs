use serde::{Deserialize, Serialize};

use crate::files;

/// What the load generator ran on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) kernel: String,
    pub(crate) system: String,
    /// Of this program, with its commit.
    pub(crate) version: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let file = |path: &str| files::read_text(path.as_ref()).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let memory = value_after(&file("/proc/meminfo"), "MemTotal:");
        let kilobytes = memory.and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
        let kernel = file("/proc/sys/kernel/osrelease").trim().to_owned();
        let system = value_after(&file("/etc/os-release"), "PRETTY_NAME=");
        Self {
            cpu: value_after(&file("/proc/cpuinfo"), "model name")
                .map_or_else(unknown, |name| name.trim_start_matches([':', ' ']).to_owned()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: kilobytes.map(|kilobytes| kilobytes * 1024),
            kernel: if kernel.is_empty() { unknown() } else { format!("Linux {kernel}") },
            system: system.map_or_else(unknown, |name| name.trim_matches('"').to_owned()),
            version: ladoga_profiler::program_version().to_owned(),
        }
    }
}

/// The rest of the first line that begins with `name`.
fn value_after(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described() {
        assert_eq!(value_after("a: 1\nmodel name\t: X Y\n", "model name").as_deref(), Some(": X Y"));
        let machine = Machine::read();
        assert!(machine.cores > 0 && machine.kernel.starts_with("Linux "), "{machine:?}");
    }
}
