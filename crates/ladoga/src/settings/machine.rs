use std::path::Path;
use std::thread::available_parallelism;

use ladoga_storage::MEMORY_BYTES_MIN;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::parse::format_size;

/// The share of the machine's memory that a node takes by default.
const MEMORY_SHARE: u64 = 4;

/// Whether a socket at `[::]` takes IPv4 as well: Linux does unless its administrator says otherwise.
pub(super) fn ipv6_covers_ipv4() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only").map_or(true, |text| text.trim() != "1")
}

/// The memory that there is, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) bytes: u64,
    is_of_group: bool,
}

impl Memory {
    /// The memory of the machine, or of the part of it that this process may use.
    pub(super) fn available() -> Memory {
        let machine = rustix::system::sysinfo();
        let of_machine = machine.totalram as u64 * u64::from(machine.mem_unit);
        // Without such a group, the machine is the limit.
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Memory::least(of_machine, limit_of_groups(Path::new("/sys/fs/cgroup"), &groups))
    }

    fn least(of_machine: u64, of_group: Option<u64>) -> Memory {
        match of_group {
            Some(bytes) if bytes < of_machine => Memory { bytes, is_of_group: true },
            _ => Memory { bytes: of_machine, is_of_group: false },
        }
    }

    /// The default budget: in whole MiB, which people can read.
    pub(super) fn share(self) -> u64 {
        ((self.bytes / MEMORY_SHARE) >> 20 << 20).max(MEMORY_BYTES_MIN)
    }

    /// A warning about a budget, called `name`, that is more than there is.
    pub(super) fn objection(self, name: &str, wanted_bytes: u64) -> Option<String> {
        let whose =
            if self.is_of_group { "the control group of this process may use" } else { "this machine has" };
        // In whole GiB or MiB, if there are ten of them.
        let unit = [30, 20].into_iter().find(|unit| self.bytes >> unit >= 10).unwrap_or_default();
        let (wanted, bytes) = (format_size(wanted_bytes), format_size(self.bytes >> unit << unit));
        (wanted_bytes > self.bytes).then(|| {
            format!("{name} is {wanted}, more than the {bytes} of memory that {whose}; the node may be swapped out or killed")
        })
    }
}

/// The least memory that the control groups of a process are limited to, of version 1 or 2: its own group, and each that
/// this one is in, as far as they can be seen below `mount`. Those of a container are mounted as if they were the outermost.
fn limit_of_groups(mount: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (_number, line) = line.split_once(':')?;
        let (controllers, group) = line.split_once(':')?;
        let (top, file) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (mount.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = Path::new(group.trim_start_matches('/'));
        group.ancestors().filter_map(|group| limit_in(&top.join(group).join(file))).min()
    });
    limits.min()
}

/// None if there is no such group, or if it has no limit of its own ("max").
fn limit_in(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Mount(std::path::PathBuf);

    impl Mount {
        #[expect(clippy::disallowed_methods, reason = "the limits of control groups are no part of a store")]
        fn with(name: &str, files: &[(&str, &str)]) -> Mount {
            let mount =
                Mount(std::env::temp_dir().join(format!("ladoga-groups-{name}-{}", std::process::id())));
            for (file, text) in files {
                let file = mount.0.join(file);
                std::fs::create_dir_all(file.parent().expect("below the mount")).expect("a directory");
                std::fs::write(file, text).expect("a file");
            }
            mount
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_around_it_counts() {
        let files = [
            ("memory.max", "max\n"),
            ("system.slice/memory.max", "1000000\n"),
            ("system.slice/ladoga.service/memory.max", "max\n"),
            ("system.slice/other.service/memory.max", "1\n"),
        ];
        let mount = Mount::with("2", &files);
        let of = |groups| limit_of_groups(&mount.0, groups);
        assert_eq!(of("0::/system.slice/ladoga.service\n"), Some(1_000_000));
        assert_eq!(of("0::/system.slice/other.service\n"), Some(1));
        assert_eq!(of("0::/\n"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_container_sees_its_group_as_the_outermost() {
        let mount = Mount::with("container", &[("memory.max", "2000\n")]);
        assert_eq!(limit_of_groups(&mount.0, "0::/\n"), Some(2_000));
        assert_eq!(limit_of_groups(&mount.0, "0::/../of-the-host\n"), Some(2_000));
        let mount = Mount::with("1", &[("memory/memory.limit_in_bytes", "3000\n"), ("memory.max", "1")]);
        assert_eq!(limit_of_groups(&mount.0, "5:cpu:/\n4:hugetlb,memory:/docker/of-the-host\n"), Some(3_000));
    }

    #[test]
    fn a_budget_is_a_quarter_of_what_there_is_and_one_that_is_more_is_told() {
        let group = Memory::least(64 << 30, Some(8 << 30));
        assert_eq!(group.share(), 2 << 30);
        assert_eq!(group.objection("--memory", 8 << 30), None);
        let told = group.objection("LADOGA_MEMORY", 16 << 30).expect("too much");
        assert!(
            told.starts_with("LADOGA_MEMORY is 16GiB, more than the 8GiB of memory that the control group"),
            "{told}"
        );
        let machine = Memory::least(64 << 30, Some(u64::MAX >> 1));
        assert_eq!(machine.share(), 16 << 30);
        let told = machine.objection("--memory", 65 << 30).expect("too much");
        assert!(
            told.starts_with("--memory is 65GiB, more than the 64GiB of memory that this machine has"),
            "{told}"
        );
        let odd = Memory::least(24_683_656 << 10, None).objection("--memory", 100 << 30).expect("too much");
        assert!(odd.starts_with("--memory is 100GiB, more than the 23GiB of memory"), "{odd}");
        assert_eq!(Memory::least(1 << 20, None).share(), MEMORY_BYTES_MIN);
    }
}
